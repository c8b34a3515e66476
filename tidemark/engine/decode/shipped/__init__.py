"""Code that travels to Spark's executors by value: their Python needs no Tidemark.

Belongs here: functions over Arrow batches. They import the standard library, pyarrow, the format's parser, each
other, the nodes that `shipping.py` sends along, and constants (which travel as values), nothing else; a test runs
them where Tidemark cannot be imported.
"""
