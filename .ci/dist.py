"""Check what `make dist` built: the wheel holds the whole package, the sdist the whole project."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

folder = Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
(sdist,) = folder.glob("*.tar.gz")
listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
tracked = listed.stdout.splitlines()
package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}

with zipfile.ZipFile(wheel) as archive:
    packed = set(archive.namelist())
if missing := sorted(package - packed):
    sys.exit(f"{wheel}: lacks {', '.join(missing[:5])}")
strange = [name for name in packed - package if not name.split("/")[0].endswith(".dist-info")]
if strange:
    sys.exit(f"{wheel}: holds {', '.join(sorted(strange)[:5])}, which is not of the package")

with tarfile.open(sdist) as archive:
    names = {name.partition("/")[2] for name in archive.getnames()}
if missing := sorted(set(tracked) - names - {".gitignore"}):
    sys.exit(f"{sdist}: lacks {', '.join(missing[:5])}")
print(f"{wheel.name}: {len(packed)} files, {wheel.stat().st_size // 1024} KiB; all of the package")
print(f"{sdist.name}: {len(names)} files, {sdist.stat().st_size // 1024} KiB; all of the project")
