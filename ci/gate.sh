#!/bin/sh
# A gate for CI: imports new profiles, compares them with a stored baseline, writes a comment of at most
# 12 lines, stores the new profiles as the baseline if asked to, and ends with the status of the comparison.
#
# It is set by variables, so that nothing that a repository or a profile says is read as shell:
#
#   GATE_PROFILES     the new profiles: files, folders or globs, one a line; several files are repeats
#   GATE_BASELINE     the store of the baseline: a file (kept by a cache or as an artifact, or on the
#                     runner's disk), or postgresql://HOST/NAME, which keeps older baselines, too
#   GATE_NAME         what the baseline is of, such as the runner (default: default); in a database there
#                     can be any number of names
#   GATE_LIMITS       a file of limits (docs/ci.md); GATE_FAIL_ON: limits, one a line. Without either
#                     nothing is judged, and the comment is all there is
#   GATE_INCONCLUSIVE what undecided limits do: fail (status 4, the default) or pass
#   GATE_OPTIONS      more options of `nsysconv diff`, one word a line
#   GATE_UPDATE       when the new profiles become the baseline: never (the default), passed (where all
#                     limits hold, or there is no baseline yet), always
#   GATE_COMMIT       the commit of the new profiles, kept with them
#   GATE_COMMENT      where the comment is written (default: nsysconv-comment.md)
#
# Where there are GITHUB_OUTPUT and GITHUB_STEP_SUMMARY they get the outcome (status, answer, stored,
# comment) and the comment. The exit status is that of nsysconv: 0 within all limits, or no baseline yet;
# 1 a limit is exceeded; 4 none is, but some are undecided; 2, 3 a mistake, a file that cannot be read.

set -u

profiles=${GATE_PROFILES-} baseline=${GATE_BASELINE-} limits=${GATE_LIMITS-} fail_on=${GATE_FAIL_ON-}
inconclusive=${GATE_INCONCLUSIVE-} options=${GATE_OPTIONS-} update=${GATE_UPDATE:-never}
comment=${GATE_COMMENT:-nsysconv-comment.md}
# Of what is put into a query and a tag only plain words are left.
name=$(printf %s "${GATE_NAME:-default}" | LC_ALL=C tr -c 'A-Za-z0-9_-' - | cut -c 1-100)
commit=$(printf %s "${GATE_COMMIT:-none}" | LC_ALL=C tr -c 'A-Za-z0-9_-' - | cut -c 1-40)
newline='
'

work=$(mktemp -d "${TMPDIR:-/tmp}/nsysconv-gate.XXXXXX") || exit 70
# Jobs that store a baseline at the same time write files of their own.
part=$baseline.${work##*.}.new
trap 'rm -rf -- "$work" "$part"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
new=$work/new.db errors=$work/errors
stored=false

# GitHub reads commands in what a step prints: not in what lies between these two.
mark=$(od -An -N16 -tx1 /dev/urandom | LC_ALL=C tr -dc 0-9a-f)
say_verbatim() {
    [ "${GITHUB_ACTIONS-}" != true ] || echo "::stop-commands::$mark"
    cat
    [ "${GITHUB_ACTIONS-}" != true ] || echo "::$mark::"
}

# Ends the gate: $1 is the status, $2 the answer in a word or two. The comment is there.
finish() {
    sed '/^<details>/,$d' "$comment" | say_verbatim
    if [ -n "${GITHUB_OUTPUT-}" ]; then
        printf '%s\n' "status=$1" "answer=$2" "stored=$stored" "comment=$comment" >>"$GITHUB_OUTPUT"
    fi
    [ -z "${GITHUB_STEP_SUMMARY-}" ] || cat "$comment" >>"$GITHUB_STEP_SUMMARY"
    exit "$1"
}

# A mistake in the call of this script.
refuse() {
    printf '### no answer: %s\n' "$1" >"$comment"
    finish 2 'no answer'
}

# Status $1 came of what $2 says. What was said is set in: no mark-up counts there.
fail() {
    # Before its first error nsysconv may have said other things, or shown a traceback.
    first=1
    ! grep -q '^nsysconv: ' "$errors" || first='/^nsysconv: /'
    {
        printf '### no answer: nsysconv could not %s, status %s\n\n' "$2" "$1"
        LC_ALL=C tr -d '\000-\010\013-\037\177' <"$errors" | cut -c 1-300 | sed -n "$first,\$p" |
            sed -e '/^[[:space:]]*$/d' -e 's/^/    /' | head -n 9
    } >"$comment"
    finish "$1" 'no answer'
}

case $comment in
*"$newline"*) comment=nsysconv-comment.md && refuse 'GATE_COMMENT has more than one line' ;;
esac
[ -n "$profiles" ] || refuse 'GATE_PROFILES names no profile'
[ -n "$baseline" ] || refuse 'GATE_BASELINE names no store'
case $update in
never | passed | always) ;;
*) refuse 'GATE_UPDATE is never, passed or always' ;;
esac
case $baseline in
*:/*) in_database=true ;; # nsysconv says whether it knows the address, and shows no password
*) in_database=false ;;
esac

# ---- Import. Globs are the shell's; names of files may have anything in them but line breaks.
IFS=$newline
# shellcheck disable=SC2086 # lines are words here, and globs are meant
set -- $profiles
unset IFS
tag=$name.$(date -u +%Y%m%dT%H%M%SZ).$commit
nsysconv import -o "$new" --tag "baseline=$tag" --tag "commit=$commit" -- "$@" \
    >"$work/imported" 2>"$errors"
status=$?
# Files that differ in a number are repeats here, whatever the import takes them for.
grep -v -e --rank-from "$errors" | say_verbatim
[ "$status" = 0 ] || fail "$status" 'import the new profiles'

# ---- The baseline: a file, or in a database the newest of this name.
base=''
if [ "$in_database" = false ]; then
    [ ! -e "$baseline" ] || base=$baseline
else
    query="SELECT max(value) AS newest FROM profile_tag
           WHERE key = 'baseline' AND substr(value, 1, ${#name} + 1) = '$name.'"
    found=$(nsysconv sql "$baseline" "$query" -f csv 2>"$errors")
    status=$?
    case $status in
    0)
        # A row below the header; of none CSV has a pair of quotes.
        newest=$(printf '%s\n' "$found" | sed -n 2p | LC_ALL=C tr -cd 'A-Za-z0-9._-')
        [ -z "$newest" ] || base=$baseline@baseline=$newest
        ;;
    3) ;; # no store yet
    *)
        say_verbatim <"$errors"
        fail "$status" 'look for the baseline'
        ;;
    esac
fi

# Makes the new profiles the baseline; older ones stay in a database.
store() {
    if [ "$in_database" = true ]; then
        nsysconv import "$new" -o "$baseline" >"$work/imported" 2>"$errors"
    else
        # Complete under its name, or not at all. 1 would say that a limit is exceeded.
        { mkdir -p -- "$(dirname -- "$baseline")" && cp -- "$new" "$part" &&
            mv -f -- "$part" "$baseline"; } 2>"$errors" || (exit 2)
    fi
    status=$?
    [ "$status" = 0 ] || fail "$status" 'store the new profiles as the baseline'
    stored=true
}

if [ -z "$base" ]; then
    outlook='this run stores none'
    if [ "$update" != never ]; then
        store
        outlook='these profiles are it from now on'
    fi
    # shellcheck disable=SC2016 # these are Markdown's
    printf '### no baseline: `%s` has none yet; %s\n' "$name" "$outlook" >"$comment"
    finish 0 'no baseline'
fi

# ---- Compare.
set -- "$base" "$new" -f markdown --brief -o "$work/comment.md"
[ -z "$limits" ] || set -- "$@" --limits "$limits"
[ -z "$inconclusive" ] || set -- "$@" --inconclusive "$inconclusive"
IFS=$newline
set -f
for limit in $fail_on; do set -- "$@" --fail-on "$limit"; done
# shellcheck disable=SC2086 # lines are words here
set -- "$@" $options
set +f
unset IFS
nsysconv diff "$@" 2>"$errors"
status=$?
say_verbatim <"$errors"
case $status in
0 | 1 | 4) ;;
*)
    if [ "$update" = always ]; then # a damaged baseline would otherwise stay forever
        compared=$status
        cp -- "$errors" "$work/said" && store && cp -- "$work/said" "$errors"
        status=$compared
    fi
    fail "$status" 'compare with the baseline'
    ;;
esac
cp -- "$work/comment.md" "$comment" || exit 70
answer='no answer'
case $(head -n 1 "$comment") in "### INCONCLUSIVE: "*) answer=inconclusive ;; esac
for word in slower faster same inconclusive; do
    # With limits PASS, FAIL or INCONCLUSIVE comes first.
    case $(head -n 1 "$comment") in "### $word: "* | "### "[A-Z]*": $word: "*) answer=$word ;; esac
done
if [ "$update" = always ] || { [ "$update" = passed ] && [ "$status" = 0 ]; }; then
    compared=$status
    store
    status=$compared
fi
finish "$status" "$answer"
