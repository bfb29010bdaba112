# Versions of three numbers.

# semver_part VERSION N: prints the N-th number.
semver_part() {
    rest=$1.
    n=$2
    while [ "$n" -gt 1 ]; do
        rest=${rest#*.}
        n=$((n - 1))
    done
    printf '%s\n' "${rest%%.*}"
}

# semver_compare A B: prints lt, eq or gt.
semver_compare() {
    for part in 1 2; do
        a=$(semver_part "$1" "$part")
        b=$(semver_part "$2" "$part")
        if [ "$a" -lt "$b" ]; then
            echo lt
            return
        fi
        if [ "$a" -gt "$b" ]; then
            echo gt
            return
        fi
    done
    echo eq
}
