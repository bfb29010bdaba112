check "newer releases are printed" "1.2.0 Shorter time spans #Shorter-time-spans" \
    "$(sh bin/relnotes.sh 1.1.0 CHANGELOG.md)"
check "the newest has nothing after it" "" "$(sh bin/relnotes.sh 1.2.0 CHANGELOG.md)"
