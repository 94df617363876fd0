#!/bin/sh
# Compiles every header of src/ alone: headers.sh COMPILER FLAGS...
failed=0 count=0
for header in $(find src -name '*.h' | sort); do
    count=$((count + 1))
    echo "#include \"${header#*/}\"" | "$@" -fsyntax-only -x c - || failed=$((failed + 1))
done
echo "headers: $count compiled alone, $failed failed"
[ $failed -eq 0 ]
