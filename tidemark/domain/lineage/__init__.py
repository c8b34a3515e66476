"""Where columns come from, which tags travel, and the marts downstream."""
