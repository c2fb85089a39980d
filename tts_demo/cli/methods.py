"""``methods``: list the methods and their options."""

import argparse
import dataclasses
import json
from typing import Any

HELP = "list the methods and their options"


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> None:
    from ..methods import METHODS

    rows = [describe_method(method) for method in METHODS.values()]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:<15} {row['title']}  [{row['paper']}]")
        for option in row["options"]:
            limits = "text" if option["min"] is None else f"{option['min']} to {option['max']}"
            if option["choices"]:
                limits = ", ".join(map(str, option["choices"]))
            print(f"{'':<15} {option['name']}={option['default']}  ({limits})  {option['help']}")


def describe_method(method: type) -> dict[str, Any]:
    options = [
        {
            "name": f.name,
            "type": type(f.default).__name__,
            "default": f.default,
            **{k: f.metadata.get(k) for k in ("label", "help", "min", "max", "step", "choices", "unit")},
        }
        for f in dataclasses.fields(method.Options)
    ]
    return {"name": method.name, "title": method.title, "paper": method.paper, "options": options}
