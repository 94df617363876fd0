# Installing for C programs, and the pages about operators.  Included by the Makefile.
