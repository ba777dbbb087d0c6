"""The logging level of `-v 5`, below DEBUG: which rules were asked, and what each said. Pure."""

WHY = 5
