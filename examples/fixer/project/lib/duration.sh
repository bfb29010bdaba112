# Durations such as 1h30m.

# duration_seconds TEXT: prints the seconds, or "invalid" and fails.
duration_seconds() {
    left=$1
    total=0
    while [ -n "$left" ]; do
        number=${left%%[!0-9]*}
        left=${left#"$number"}
        unit=${left%"${left#?}"}
        left=${left#?}
        if [ -z "$number" ]; then
            echo invalid
            return 1
        fi
        case $unit in
            h) total=$((total + number * 60)) ;;
            m) total=$((total + number * 60)) ;;
            s) total=$((total + number)) ;;
            *) echo invalid; return 1 ;;
        esac
    done
    echo "$total"
}
