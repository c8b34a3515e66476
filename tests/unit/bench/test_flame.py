"""Flame graphs: what two profilers write becomes shares that add up, and a page that stays small."""

import re

import pytest

from bench.profiles import flame

JAVA = """\
[Executor task launch worker for task 1.0 in stage 2.0 (TID 7) tid=91];java/lang/Thread.run;org/apache/parquet/Writer.write 6
[Executor task launch worker for task 3.0 in stage 2.0 (TID 8) tid=92];java/lang/Thread.run;org/apache/kafka/Poll$$Lambda/0x7f12.get 3
[C2 CompilerThread0 tid=12];CompileBroker::compiler_thread_loop 1
"""
PYTHON = "main (cli/main.py:3);load (tidemark/engine/access/lake.py:12) 2\nmain (cli/main.py:9);load (tidemark/engine/access/lake.py:14) 2\n"


def test_threads_of_one_kind_and_lines_of_one_function_are_one_frame():
    assert len({stack[0] for stack in flame.read(JAVA)}) == 2
    assert flame.read(PYTHON) == {("main (cli/main.py)", "load (tidemark/engine/access/lake.py)"): 4}


def test_a_frame_is_counted_where_it_runs_itself():
    assert flame.top(flame.read(JAVA), 2) == [("Writer.write", 0.6), ("Poll.get", 0.3)]


def test_threads_and_what_a_frame_calls_have_their_shares():
    stacks = flame.read(JAVA)
    assert flame.threads(stacks) == [("[Executor task launch worker]", 0.9), ("[C CompilerThread]", 0.1)]
    assert flame.through(stacks, "Thread.", 2) == [("Thread.run", 0.9)]
    assert flame.threads(flame.read(PYTHON)) == []


def test_boxes_are_as_wide_as_their_share_and_lie_within_their_caller():
    root = flame.tree(flame.read(JAVA))
    assert root.samples == sum(child.samples for child in root.children.values()) == 10
    page = flame.svg(flame.read(JAVA), "drain & server")
    said = re.findall("<title>(.*?)</title>", page)
    assert {"all 100.0%", "Thread.run 90.0%", "Writer.write 60.0%", "Poll.get 30.0%"} <= set(said)


def test_what_is_too_narrow_to_see_is_left_out():
    stacks = flame.read("\n".join(f"a{n};b{n} 1" for n in range(10_000)) + "\nwide;frame 10000")
    page = flame.svg(stacks, "many")
    assert "frame 50.0%" in page
    assert len(page) < 2_000


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_sampled_is_an_empty_page(text):
    assert "0 samples" in flame.svg(flame.read(text), "idle")
