#!/bin/sh
# Runs the given unit test programs and prints one line with all counts.
passed=0 failed=0
for program in "$@"; do
    out=$("$program" 2>&1)
    status=$?
    line=$(printf '%s\n' "$out" | tail -n 1)
    p=$(printf '%s\n' "$line" | sed -n 's/^\([0-9]*\) passed, .*/\1/p')
    f=$(printf '%s\n' "$line" | sed -n 's/.* \([0-9]*\) failed$/\1/p')
    if [ -z "$p" ] || { [ $status -ne 0 ] && [ "${f:-0}" = 0 ]; }; then
        f=$((${f:-0} + 1)) # it ended before its own count
        echo "$program: exit status $status"
    fi
    [ $status -ne 0 ] && printf '%s\n' "$out"
    passed=$((passed + ${p:-0})) failed=$((failed + ${f:-0}))
done
echo "unit tests: $passed passed, $failed failed"
[ $failed -eq 0 ]
