# Runs every test file and says at the end how it went. Needs nothing but sh.
passed=0
failed=0
. ./tests/check.sh
for current in tests/*_test.sh; do
    . "./$current"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
