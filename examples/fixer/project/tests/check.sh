# check NAME EXPECTED ACTUAL: counts and prints one test.
check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
        echo "ok - $1"
    else
        failed=$((failed + 1))
        echo "not ok - $1 ($current: expected $2, got $3)"
    fi
}
