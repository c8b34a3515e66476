"""Pure values and functions: no network, no clock, no engine. Imports the standard library and pydantic only.

Beside the layers, for all of them and for what is above: `errors`, `states`, `outcome`, `times`, `secrets`, `suggest`,
`home`, `spark_server`, `alerts`.
"""
