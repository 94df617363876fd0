# Names of torch, and programs of other libraries.  tools/tests.mk includes this file.

LIBRARIES = $(B)/libraries
NAMES     = tests/libraries/names

# Names that the libraries use, and public names: how many are here.  Rewrites docs/names.md and the
# package's list of missing names.
.PHONY: names names-record
names: pkg
	@mkdir -p $(LIBRARIES)
	@sh tools/deps.sh $(PYTHON) $(VENV) tensorboard
	$(RUN_PY) -m cresset run $(NAMES)/check.py --missing $(LIBRARIES)/missing.txt --page docs/names.md \
	    --messages python/cresset/_absent_names.py

# Rewrites the recorded lists.  PEER is a Python that has torch 2.13 and tensorboard.
names-record:
	@mkdir -p $(LIBRARIES)/wheels
	$(VENV)/bin/python $(NAMES)/walk.py $(LIBRARIES)/wheels $(LIBRARIES)/spelled.txt
	$(PEER) $(NAMES)/record.py $(LIBRARIES)/spelled.txt

# Programs of those libraries, unmodified, in an environment whose torch is this package
# (install-torch).  LIBRARY names some of them.  PEER, a Python that has torch 2.13, records.
.PHONY: test-programs programs-record programs-environment
LIBRARY ?=
programs-environment: pkg
	@PYTHONPATH=$(abspath $(B))/pkg $(PYTHON) tests/libraries/environment.py $(LIBRARIES)/env
test-programs: programs-environment
	$(PASSIVE) $(LIBRARIES)/env/bin/python tests/libraries/run.py $(LIBRARY) --log $(LIBRARIES)/log.txt --table $(LIBRARIES)/table.md
programs-record:
	PYTHONPATH=$(abspath $(LIBRARIES))/env/recording $(PEER) tests/libraries/run.py $(LIBRARY) --record --log $(LIBRARIES)/log.txt

# The libraries' test suites (suites.py), with torch and with this package.  SUITE names some.
.PHONY: test-suites
SUITE ?=
test-suites: pkg
	@PYTHONPATH=$(abspath $(B))/pkg $(PYTHON) tests/libraries/environment.py $(LIBRARIES)/env -r tests/libraries/suites.txt
	$(PASSIVE) $(LIBRARIES)/env/bin/python tests/libraries/suites.py $(SUITE) --peer $(abspath $(PEER)) --log $(LIBRARIES)/suites
