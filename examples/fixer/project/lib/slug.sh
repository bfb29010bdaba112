# Anchors out of titles.

# slug TEXT: prints TEXT with a dash for each run of characters that are no letters or digits.
slug() {
    text=$1
    out=
    while [ -n "$text" ]; do
        first=${text%"${text#?}"}
        text=${text#?}
        case $first in
            [A-Za-z0-9]) out=$out$first ;;
            *) [ "${out%-}" = "$out" ] && out=$out- ;;
        esac
    done
    out=${out#-}
    printf '%s\n' "${out%-}"
}
