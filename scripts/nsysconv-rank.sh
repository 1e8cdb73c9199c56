#!/bin/sh
# Profiles a rank of a job where there is no Python: the shell twin of `nsysconv profile`.
#
#   srun nsysconv-rank.sh -o train -- nsys profile -t cuda,nvtx ./train --epochs 2
#   srun nsysconv-rank.sh -o train --ranks 0,8 -- nsys profile -t cuda,nvtx -- ./train --epochs 2
#
# Behind the first -- is a line of nsys profile or nvprof of your own, without its -o. A -- before the
# program in it is theirs; --ranks needs it, for ranks that are not chosen run what is behind it.
# The report is made on local disk, then moved to where -o says, with a record (train.….nsysconv.json).
# The program's exit status is kept; 125: not started. Afterwards: nsysconv import FOLDER -o job.db
#
#   -o NAME            the report, in a folder or not; job and rank are added: train.1234.0.rank3
#   --ranks CHOICE     which ranks are profiled: 0,8,16-31 or %8 (every eighth), local0 (the first of
#                      each node), node%4:local0 (that of every fourth node); the others run the program
#   --scratch DIR      local disk, and TMPDIR of the program (default: TMPDIR, else /tmp)
#   --grace SECONDS    how long the program may take to end after SIGTERM (default: 10)
#
# POSIX sh, with ps, df, awk, sed, grep, tr, mktemp, find, readlink and date of any Linux.

# shellcheck disable=SC2317 # functions that traps call
set -u

say() { printf 'nsysconv-rank: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 125
}

# ---- Options.
output='' ranks=all scratch_wanted='' grace=10
while [ $# -gt 0 ]; do
    case $1 in
    --) shift && break ;;
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0" && exit ;;
    --*=*) option=${1%%=*} value=${1#*=} ;;
    -*)
        [ $# -gt 1 ] || die "$1 needs a value, or is no option; see --help"
        option=$1 value=$2
        shift
        ;;
    *) break ;;
    esac
    shift
    case $option in
    -o | --output) output=$value ;;
    --ranks) ranks=$value ;;
    --scratch) scratch_wanted=$value ;;
    --grace) grace=$value ;;
    *) die "no such option: $option; see --help" ;;
    esac
done
case $grace in '' | *[!0-9]*) die "--grace $grace is no number of seconds" ;; esac

# ---- The profiler's line. Which of its options take a value is not known here: where the program
# begins only a -- can tell.
command=${1-}
profiler=${command##*/}
case "$profiler ${2-}" in
'nsys profile') shift && subcommand=profile suffix='' reports='\.(nsys-rep|qdrep)$' ;;
'nvprof '*) subcommand='' suffix=.nvprof reports='' ;;
' ') die "no command is given: nsysconv-rank.sh -o train -- nsys profile ./train" ;;
*) die "not a line of a profiler: $profiler; put nsys profile … or nvprof … behind --" ;;
esac
shift
program_at=0 position=0
for word do
    position=$((position + 1))
    case $word in
    --) program_at=$((position + 1)) && break ;;
    -o* | --output | --output=* | --export-profile | --export-profile=*)
        die "$word behind --: give -o to nsysconv-rank.sh itself; the program's own needs -- before the program" ;;
    esac
done
if [ $# -eq 0 ] || [ $program_at -gt $# ]; then
    die "there is no program in this line of $profiler"
fi
[ -n "$output" ] || die "-o is missing, the report's name: nsysconv-rank.sh -o train -- $profiler …"
[ "$ranks" = all ] || [ $program_at -gt 0 ] ||
    die "--ranks needs a -- before the program, too: nsysconv-rank.sh … -- $profiler … -- ./train"

# ---- Rank and job, as nsysconv/launch.py reads them: no other variable is looked at.
# The value of a variable where it is a whole number, without leading zeros; else nothing.
number_of() (
    value=''
    if [ "$1" != - ]; then eval "value=\${$1-}"; fi
    case $value in '' | *[!0-9]* | ??????????*) exit ;; esac
    value=${value#"${value%%[1-9]*}"}
    printf '%s' "${value:-0}"
)
# The value of a variable where it is a job's name. Flux may write its f as a florin sign.
word_of() {
    eval "printf '%s' \"\${$1-}\"" | tr '\n' ' ' | sed 's/ƒ/f/g' | grep -Ex '[][A-Za-z0-9_.:-]{1,64}'
}
# The first launcher that tells a rank is right; others of the same rank tell what it does not. The
# columns: rank, local rank, number of ranks, number of the node, and what only this launcher sets.
rank='' local_rank='' world_size='' node=''
while read -r rank_name local_name size_name node_name mark; do
    eval "marked=\${${mark:-$rank_name}+yes}"
    number=$(number_of "$rank_name")
    if [ -n "$marked" ] && [ -n "$number" ] && [ "${rank:-$number}" = "$number" ]; then
        rank=$number
        local_rank=${local_rank:-$(number_of "$local_name")}
        world_size=${world_size:-$(number_of "$size_name")}
        node=${node:-$(number_of "$node_name")}
    fi
done <<END
RANK LOCAL_RANK WORLD_SIZE GROUP_RANK TORCHELASTIC_RUN_ID
OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_SIZE -
MV2_COMM_WORLD_RANK MV2_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_SIZE -
JSM_NAMESPACE_RANK JSM_NAMESPACE_LOCAL_RANK JSM_NAMESPACE_SIZE -
PMI_RANK MPI_LOCALRANKID PMI_SIZE -
PMI_RANK PMI_LOCAL_RANK PMI_SIZE -
PALS_RANKID PALS_LOCAL_RANKID - PALS_NODEID
PMIX_RANK - - -
FLUX_TASK_RANK FLUX_TASK_LOCAL_ID FLUX_JOB_SIZE -
RANK LOCAL_RANK WORLD_SIZE -
SLURM_PROCID SLURM_LOCALID SLURM_STEP_NUM_TASKS SLURM_NODEID SLURM_STEP_ID
SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_NODEID SLURM_STEP_ID
END
job='' flux=$(word_of FLUX_JOB_ID) slurm=$(number_of SLURM_JOB_ID)
pbs=$(word_of PBS_JOBID) lsf=$(number_of LSB_JOBID)
if [ -n "$flux" ]; then
    job="flux $flux"
elif [ -n "$slurm" ]; then
    array=$(number_of SLURM_ARRAY_JOB_ID) element=$(number_of SLURM_ARRAY_TASK_ID)
    if [ -n "$array" ] && [ -n "$element" ]; then slurm=${array}_$element; fi
    # mpirun's daemons are tasks of a step on some nodes only: no step is the run's.
    mpirun=${OMPI_COMM_WORLD_RANK+set}${MV2_COMM_WORLD_RANK+set}${MPI_LOCALRANKID+set}
    slurm_step=$(number_of SLURM_STEP_ID)
    if [ -n "$slurm_step" ] && [ -z "$mpirun" ]; then slurm=$slurm.$slurm_step; fi
    job="slurm $slurm"
elif [ -n "$pbs" ]; then
    job="pbs $pbs"
elif [ -n "$lsf" ]; then
    element=$(number_of LSB_JOBINDEX)
    job="lsf $lsf"
    [ "${element:-0}" -eq 0 ] || job="${job}[$element]"
fi

# ---- Which ranks.
# Whether a term of --ranks is true of this process: 8, 16-31 or %8, perhaps of local ranks or nodes.
is_true() {
    case $1 in
    local*) number=$local_rank what='local rank' ;;
    node*) number=$node what='number of the node' ;;
    *) number=$rank what=rank ;;
    esac
    [ -n "$number" ] || die "--ranks asks for the $what, which no variable of a launcher tells"
    numbers=${1#"${1%%[0-9%]*}"}
    case $numbers in
    %*) [ $((number % ${numbers#%})) -eq 0 ] ;;
    *) [ "$number" -ge "${numbers%-*}" ] && [ "$number" -le "${numbers#*-}" ] ;;
    esac
}
# Items are joined by commas, one of which must hold; an item's terms by colons, all of which must.
is_chosen() {
    [ "$ranks" != all ] || return 0
    term='(rank|local|node)?([0-9]{1,9}(-[0-9]{1,9})?|%[1-9][0-9]{0,8})' item="$term(:$term)*"
    printf '%s\n' "$ranks" | grep -Eqx "$item(,$item)*" ||
        die "--ranks $ranks names no ranks: such as 0,8,16-31 or %8 or local0 or node%4:local0"
    chosen=no
    for item in $(printf '%s' "$ranks" | tr , ' '); do
        all=yes
        # Each term is looked at, so that what no launcher tells is refused on every rank.
        for term in $(printf '%s' "$item" | tr : ' '); do is_true "$term" || all=no; done
        [ $all = no ] || chosen=yes
    done
    [ $chosen = yes ]
}
is_chosen || { shift $((program_at - 1)) && exec "$@"; }

# ---- The report's folder and name, and scratch.
command -v "$command" >/dev/null 2>&1 || die "$command: not in PATH, or not to be run; load its module"
host=$(uname -n)
case $output$scratch_wanted in *:/*) die "an address, where a file or folder is needed" ;; esac
case $output in
*/) die "the output is a folder: $output; name a file in it" ;;
*%*/*) die "-o $output: no % is replaced in a folder; let the shell of the job script do it" ;;
esac
folder=$(dirname -- "$output")
folder=$(mkdir -p -- "$folder" && cd -- "$folder" && pwd) ||
    die "$output: the folder of the output cannot be made, or not be used"
# nsys adds a suffix of its own, nvprof none.
name=${output##*/} name=${name%.nsys-rep} name=${name%.nvprof}
[ -z "$job" ] || name=$name.$(printf '%s' "${job#* }" | tr -cs 'A-Za-z0-9_.-' _ | sed 's/_$//')
[ -z "$rank" ] || name=$name.rank$rank

root=${scratch_wanted:-${TMPDIR:-/tmp}}
[ -z "$scratch_wanted" ] || [ -d "$scratch_wanted" ] || die "$scratch_wanted: no such folder"
free_kib=$(df -Pk -- "$root" 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ ! -d "$root" ] || [ ! -w "$root" ] || [ "${free_kib:-0}" -lt 262144 ]; then
    say "$root: no room; $folder is used as scratch"
    root=$folder
fi
scratch=$(mktemp -d "$root/.nsysconv-XXXXXXXX") || die "$root: no folder can be made"
mkdir "$scratch/report" "$scratch/tmp"

# ---- The record. It is written now, for ranks that are killed, and completed at the end.
# Nanoseconds are GNU's: elsewhere seconds must do.
now_ns() { date +%s%N | sed 's/^\(.\{10\}\)N*$/\1000000000/'; }
json() { # a text; without one null
    if [ -z "$1" ]; then printf null && return; fi
    printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\037\177' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}
# In $stem: the first of STEM, STEM-2, … that no file with one of these suffixes has in the folder, but
# this rank's own record.
find_free_stem() { # stem suffix...
    wanted=$1 stem=$1 number=1
    shift
    while is_taken "$@"; do number=$((number + 1)) stem=$wanted-$number; done
}
is_taken() {
    for ending do [ ! -e "$folder/$stem$ending" ] || [ "$folder/$stem$ending" = "$own" ] || return 0; done
    return 1
}
find_free_name() { find_free_stem "$name" .nsysconv.json .sqlite .db .nsys-rep .qdrep; }
write_record() { # stem report
    path=$folder/$1.nsysconv.json
    text=$(LC_ALL=C printf '%-4095s' "$(cat <<END
{
 "nsysconv_record": 1,
 "rank": ${rank:-null}, "local_rank": ${local_rank:-null}, "world_size": ${world_size:-null},
 "host": $(json "$host"), "job": $(json "$job"),
 "profiler": "$profiler", "report": $(json "$2"), "store": null,
 "exit_status": $status, "signal": $by_signal,
 "start_utc_ns": $start_ns, "end_utc_ns": $end_ns,
 "problems": [$problems]
}
END
)")
    [ "$path" != "$own" ] || own=''
    printf '%s\n' "$text" | cat >"$path.$$.partial" && mv -f -- "$path.$$.partial" "$path" && return
    rm -f -- "$path.$$.partial"
    # A full disk has room for it where the first one is, which is as long.
    [ -s "$path" ] && [ ${#text} -le 4095 ] && printf '%s\n' "$text" | cat 1<>"$path" && return
    own=''
    say "$path: the record could not be written"
    return 1
}
status=null by_signal=null start_ns=$(now_ns) end_ns=null own=''
problems=$(json "no end is recorded: it is still running, or was killed outright; what it left is in \
$scratch on $host")
# Only one of several ranks can make that file.
while find_free_name && ! (set -C && : >"$folder/$stem.nsysconv.json") 2>/dev/null; do
    [ -e "$folder/$stem.nsysconv.json" ] || break
done
write_record "$stem" '' || rm -f -- "$path"
[ ! -e "$path" ] || own=$path

# ---- Run, and pass signals on. The first signal to end goes to the program; the profiler then writes
# its report. After the time of grace, or at a second signal, the profiler is interrupted; at last killed.
in_a_pattern=$(printf '%s' "$scratch" | sed 's/%/%%/g')
set -- "$command" ${subcommand:+"$subcommand"} -o "$in_a_pattern/report/$name$suffix" "$@"
# What runs in the background of a shell ignores SIGINT; env or perl can undo that.
interrupt=INT
if env --default-signal=INT,QUIT true 2>/dev/null; then
    set -- env --default-signal=INT,QUIT "$@"
elif command -v perl >/dev/null 2>&1; then
    set -- perl -e '@SIG{"INT","QUIT"} = ("DEFAULT") x 2; exec @ARGV or exit 125' "$@"
else
    interrupt=TERM
fi
# Ranks and users on one node would meet in the folder that nsys takes by itself.
if [ "$profiler" = nsys ]; then export NSYS_TMPDIR="${NSYS_TMPDIR:-$scratch/tmp}"; fi
[ -z "$scratch_wanted" ] || export TMPDIR="$scratch_wanted"
# The highest process below the profiler that is no tool of its own; in $program.
find_program() {
    parents=$child
    while [ -n "$parents" ]; do
        parents=$(ps -A -o ppid= -o pid= -o stat= | awk -v parents=" $parents " \
            '$3 !~ /^Z/ && index(parents, " " $1 " ") { printf "%s ", $2 }')
        for program in $parents; do
            case $(readlink "/proc/$program/exe" 2>/dev/null) in
            */nsys* | */nvprof* | */Qdstrm* | */[Nn]sight-[Ss]ystems*) ;;
            *) return 0 ;;
            esac
        done
    done
    return 1
}
step=0 deadline=0 last_signal=0 undelivered='' ticker=''
# Ends the job a step further: at a signal, whose name it is given, or because time has run out.
next_step() {
    step=$((step + 1)) patience=300
    case $step in
    1)
        say "SIG$1: the program is told, and the report is waited for"
        undelivered="$undelivered $1" patience=$grace
        ;;
    2)
        undelivered=''
        # Without the program the profiler is busy with the report, which an interrupt could cost.
        if find_program; then
            say 'the program has not ended: the profiler is interrupted'
            kill -s "$interrupt" "$child" 2>/dev/null
        fi
        ;;
    *)
        say 'the profiler has not ended: it is killed'
        find_program || program=$child
        kill -s KILL "$program" "$child" 2>/dev/null
        ;;
    esac
    deadline=$(($(date +%s) + patience))
}
# A signal to end. Batch systems send several at once, which are one.
on_end() {
    if [ $(($(date +%s) - last_signal)) -ge 2 ]; then
        last_signal=$(date +%s)
        next_step "$1"
    fi
    attend
}
# Does what is due: signals for a program that was not there yet, and steps by the clock.
attend() {
    woken=yes
    if [ -n "$undelivered" ] && find_program; then
        signals=$undelivered undelivered=''
        for signal in $signals; do kill -s "$signal" "$program" 2>/dev/null; done
    fi
    if [ "$step" -gt 0 ] && [ "$(date +%s)" -ge "$deadline" ]; then next_step; fi
    if [ -z "$ticker" ] && [ "$step$undelivered" != 0 ]; then start_ticker; fi
}
# `wait` has no time limit: from the first signal on, SIGALRM comes every second.
start_ticker() {
    (
        trap '' TERM INT HUP QUIT USR1 USR2
        while sleep 1 && kill -s ALRM $$; do :; done
    ) </dev/null 3<&- >/dev/null 2>&1 &
    ticker=$!
}
# shellcheck disable=SC2064 # the name of now
for signal in TERM INT HUP QUIT; do trap "on_end $signal" "$signal"; done
trap 'undelivered="$undelivered USR1"; attend' USR1
trap 'undelivered="$undelivered USR2"; attend' USR2
trap attend ALRM
exec 3<&0 # the background would get /dev/null
"$@" <&3 3<&- &
child=$!
woken=yes status=''
while [ -n "$woken" ]; do
    woken=''
    wait "$child"
    result=$?
    # A signal ends the waiting, not the profiler. 127: the profiler had ended as well.
    if [ $result -ne 127 ] || [ -z "$status" ]; then status=$result; fi
done
# From here on nothing is broken off: a report that is being moved is worth more than the time.
trap '' TERM INT HUP QUIT USR1 USR2 ALRM
[ -z "$ticker" ] || kill -s KILL "$ticker"
end_ns=$(now_ns)
if [ "$status" -gt 128 ] && [ "$status" -le 193 ]; then by_signal=$((status - 128)); fi

# ---- Bring home what it left. No list of files is written for that: the disk may be full.
# Names of files are split at the ends of lines only, and are no patterns.
set -f
IFS='
'
who="rank ${rank:-unknown} on $host" seconds=$(((end_ns - start_ns) / 1000000000))
problems='' safe=yes
add_problem() {
    say "$who: $1"
    problems="$problems${problems:+, }$(json "$1")"
}
# A file to the folder, whole or not at all, under a name that is free; in $kept.
stage_out() { # file, suffixes of files that are not to be there under its name
    base=${1##*/} partial=$folder/.${1##*/}.$host-$$.partial
    if ln -f -- "$1" "$partial" 2>/dev/null || cp -- "$1" "$partial"; then
        shift
        sync -- "$partial" 2>/dev/null
        while find_free_stem "${base%.*}" ".${base##*.}" "$@"; do
            kept=$stem.${base##*.}
            # Only one of several ranks can make that link.
            ln -- "$partial" "$folder/$kept" 2>/dev/null && rm -f -- "$partial" && return
            [ -e "$folder/$kept" ] || break
        done
        # The name is free, and still there is no link: the file system has none.
        mv -n -- "$partial" "$folder/$kept" && [ ! -e "$partial" ] && return
    fi
    rm -f -- "$partial"
    return 1
}
keep_report() {
    problems='' bytes=$(wc -c <"$1")
    [ -s "$1" ] || add_problem 'the report is empty'
    if stage_out "$1" .nsysconv.json .sqlite .db; then
        say "$who: $folder/$kept, $((${bytes:-0} / 1000)) kB, $seconds s, exit status $status"
        write_record "$stem" "$kept"
    else
        safe=''
        record_loss "the report could not be kept: it is $1 on $host"
    fi
}
record_loss() {
    add_problem "$1"
    find_free_name
    write_record "$stem" ''
}
keep_other() {
    if ! stage_out "$1"; then
        safe=''
        say "${1##*/} could not be kept: it is $1 on $host"
    elif [ "${kept##*.}" = qdstrm ]; then
        say "$folder/$kept: nsys could not make a report of it; try: nsys import"
    fi
}

# A recording of which no report was made, and a report that got no name, are temporary files.
files=$(find "$scratch/report" -type f; find "$scratch/tmp" -type f -name '*.qdstrm')
found=$(printf '%s\n' "$files" | grep -E "$reports")
[ -n "$found" ] || found=$(find "$scratch/tmp" -type f -name '*.nsys-rep')
for file in $found; do keep_report "$file"; done
for file in $(printf '%s\n' "$files" | grep -Ev "$reports"); do keep_other "$file"; done
if [ -z "$found" ]; then
    why="$profiler wrote none"
    [ "$status" -eq 0 ] || why="$profiler ended with status $status"
    record_loss "no report: $why"
fi
# The profiler called its reports otherwise, or there are several.
[ -z "$own" ] || rm -f -- "$own"
[ -z "$safe" ] || rm -rf -- "$scratch"
exit "$status"
