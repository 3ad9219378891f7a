"""Shared libraries in the place of NVIDIA's, so that torch can be imported where none of it is ever computed with.

In: the site-packages folder of a virtual environment that has torch for CUDA and none of the nvidia-* packages, which
take 3 GB. Out: in torch/lib, for each such library that torch's own ask for, one with its name, its symbol versions
and its functions, all of which say that there is no device. For tests of parsers; never where something is computed.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100
NVIDIA = re.compile(r"lib(cu(?!da\.)\w+|nccl|nvrtc|nvshmem_host|nvJitLink|nvToolsExt)\.so[.\d]*")
# Whose functions carry no version, by how their names begin.
UNVERSIONED = {"cudnn": "libcudnn", "nccl": "libnccl", "cusparseLt": "libcusparseLt", "cuFile": "libcufile"}


def output(*command: str) -> str:
    """What a tool of binutils says."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wanted(folder: Path) -> dict[str, dict[str, set[str]]]:
    """For each library that is needed and not there: its versions, and the functions of each; "" for those without."""
    libraries: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    own = {path.name for path in folder.glob("*.so*") if not path.is_symlink()}
    for path in [*folder.glob("*.so*"), *folder.parent.glob("*.so")]:
        needed = {
            name
            for name in re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", str(path)))
            if NVIDIA.fullmatch(name) and name not in own
        }
        file, of_version = "", {}
        for line in output("readelf", "-VW", str(path)).splitlines():
            if found := re.search(r"File: (\S+)", line):
                file = found[1]
            elif (found := re.search(r"Name: (\S+)", line)) and file in needed:
                of_version[found[1]] = file
                _ = libraries[file][found[1]]
        for name in needed:
            _ = libraries[name][""]
        for symbol in re.findall(r" U (\w+(?:@\S+)?)", output("nm", "-D", "--undefined-only", str(path))):
            function, _, version = symbol.replace("@@", "@").partition("@")
            if version in of_version:
                libraries[of_version[version]][version].add(function)
            elif not version:
                start = next((each for each in UNVERSIONED if function.startswith(each)), None)
                for name in needed:
                    if start and name.startswith(UNVERSIONED[start] + ".so"):
                        libraries[name][""].add(function)
    return libraries


def build(target: Path, versions: dict[str, set[str]]) -> None:
    """Compiles one stand-in."""
    functions = sorted(set().union(*versions.values()))
    script = "".join(
        f"{version} {{ global: {' '.join(f'{each};' for each in sorted(names))} }};\n"
        for version, names in versions.items()
        if version
    )
    with tempfile.TemporaryDirectory() as scratch:
        source, exported = Path(scratch, "standin.c"), Path(scratch, "versions")
        source.write_text("".join(f"int {each}(void) {{ return {NO_DEVICE}; }}\n" for each in functions))
        exported.write_text(script)
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-w", "-fno-builtin", f"-Wl,-soname,{target.name}"]
        if script:
            command.append(f"-Wl,--version-script={exported}")
        subprocess.run([*command, str(source), "-o", str(target)], check=True)


def main(site_packages: str) -> None:
    """Makes what torch misses, and tries it."""
    folder = Path(site_packages, "torch", "lib")
    for name, versions in sorted(wanted(folder).items()):
        build(folder / name, versions)
        print(f"{name}: {sum(map(len, versions.values()))} functions")


if __name__ == "__main__":
    main(sys.argv[1])
