# Names of torch, and programs of other libraries.  tools/tests.mk includes this file.

LIBRARIES = $(B)/libraries
NAMES     = tests/libraries/names

# Names that the libraries use, and public names: how many are here.  Rewrites docs/names.md.
.PHONY: names names-record
names: pkg
	@mkdir -p $(LIBRARIES)
	$(RUN_PY) -m cresset run $(NAMES)/check.py --missing $(LIBRARIES)/missing.txt --page docs/names.md

# Rewrites the recorded lists.  PEER is a Python that has torch 2.13 and tensorboard.
names-record:
	@mkdir -p $(LIBRARIES)/wheels
	$(VENV)/bin/python $(NAMES)/walk.py $(LIBRARIES)/wheels $(LIBRARIES)/spelled.txt
	$(PEER) $(NAMES)/record.py $(LIBRARIES)/spelled.txt
