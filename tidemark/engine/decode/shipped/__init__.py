"""Code that travels to Spark's executors by value: their Python needs no Tidemark.

Belongs here: functions over Arrow batches. They import the standard library, pyarrow, the format's parser, each
other and `tidemark.domain.formats.json_nodes`, nothing else; a test runs them where Tidemark cannot be imported.
"""
