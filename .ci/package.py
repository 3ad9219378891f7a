#!/usr/bin/env python3
"""What the published packages are, and whether each holds what it must.

In: `names`, or `check` with the folder of the unpacked packages and their names. Out: the names, a line each; or nothing. Exit code 1
and a line a fault if a licence, README or description is missing, or a relative link of a page leads out of the package. The
README has none at all: on a registry's page it would lead nowhere.
"""

import json
import posixpath
import re
import subprocess
import sys
import tomllib
from pathlib import Path

WANTED = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"]
METADATA = ["description", "license", "readme", "keywords", "categories", "rust-version"]
# Where an image is missing its text stands.
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def packages() -> dict[str, str]:
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {package["name"]: package["version"] for package in metadata["packages"] if package["publish"] != []}


def faults(path: Path) -> list[str]:
    texts = {file.relative_to(path).as_posix(): file.read_text() for file in path.rglob("*") if file.is_file()}
    found = [f"has no {name}" for name in WANTED if name not in texts]
    manifest = tomllib.loads(texts["Cargo.toml"])["package"]
    found += [f"Cargo.toml has no {key}" for key in METADATA if not manifest.get(key)]
    for page, text in texts.items():
        if not page.endswith(".md"):
            continue
        for link in LINK.findall(IMAGE.sub("", text)):
            if "://" in link:
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            if page == "README.md" or target not in texts:
                found.append(f"{page} links to {link}")
    return [f"{path.name}: {fault}" for fault in found]


def main() -> None:
    match sys.argv[1:]:
        case ["names"]:
            print("\n".join(packages()))
        case ["check", folder, *names] if names:
            versions = packages()
            found = [fault for name in names for fault in faults(Path(folder) / f"{name}-{versions[name]}")]
            sys.exit("\n".join(found) or 0)
        case _:
            sys.exit("usage: package.py names | package.py check FOLDER NAME...")


main()
