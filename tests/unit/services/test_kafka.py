"""Rule: what the broker reads of its folder is the folder."""

from pathlib import Path

import pytest

from tidemark.services.errors import ServiceError
from tidemark.services.kafka import Kafka, _escaped
from tidemark.services.ports import Ports
from tidemark.services.service import Place


@pytest.mark.parametrize(
    "path", ["/home/josé/Téléchargements", "/srv/with space=#!:", "/srv/back\\slash", "/srv/\U0001f40b"]
)
def test_a_path_is_written_as_java_reads_properties(path: str) -> None:
    """ISO 8859-1 in which a backslash, u and four digits are a letter in UTF-16."""
    read = _escaped(Path(path)).encode("latin-1").decode("unicode_escape")
    assert read.encode("utf-16", "surrogatepass").decode("utf-16") == path


def test_a_folder_that_kafka_would_take_for_two_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path / "a,b", Path("java"), Ports(tmp_path / "ports.json"))
    with pytest.raises(ServiceError, match="two folders") as told:
        Kafka().command(place)
    assert "TIDEMARK_HOME" in told.value.next_step
