"""Command groups that are imported when they are asked for."""

from typing import Any

import typer
from typer.core import TyperGroup


class Services(TyperGroup):
    """`tidemark services …` of tidemark/cli/services.py."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of its commands."""
        return self._whole().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of its commands."""
        return self._whole().get_command(ctx, cmd_name)

    def _whole(self) -> TyperGroup:
        from tidemark.cli.services import services_app  # noqa: PLC0415

        whole = typer.main.get_command(services_app)
        assert isinstance(whole, TyperGroup)  # noqa: S101 - it has several commands
        return whole
