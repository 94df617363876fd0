"""Makes the running interpreter import the package from the given folder."""
import os
import site
import sys

folder = os.path.abspath(sys.argv[1])
target = os.path.join(site.getsitepackages()[0], "cresset.pth")
if not os.path.exists(target) or open(target).read().strip() != folder:
    with open(target, "w") as f:
        f.write(folder + "\n")
