#!/bin/sh
# Profiles a rank of a job where there is no Python: the shell twin of `nsysconv profile`.
#
#   srun nsysconv-rank.sh [OPTIONS] -- nsys profile -o train ./train --epochs 2
#
# The line behind -- is your own; only its output is completed by job and rank. The report is made on
# local disk, then moved to where the line says, with a record beside it (train.….nsysconv.json). The
# program's exit status is kept; 125: it could not be started. Import the folder afterwards:
# nsysconv import FOLDER -o job.db
#
#   --ranks CHOICE     which ranks are profiled: 0,8,16-31 or %8 (every eighth), local0 (the first of
#                      each node), node%4:local0 (that of every fourth node); the others run the program
#   --scratch DIR      local disk, and TMPDIR of the program (default: TMPDIR, else /tmp)
#   --grace SECONDS    how long the program may take to end after SIGTERM (default: 10)
#   --program WORD     the argument that begins the program, where an option of nsys is not known
#   --export           let nsys export the report to SQLite as well
#
# POSIX sh, with ps, df, sed, tr, mktemp, date, dd of any Linux.
# shellcheck disable=SC2317 # functions that traps call
set -u

say() { printf 'nsysconv-rank: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 125
}

# ---- Options of the profilers that take a value, and those that take none.

nsys_valued=' -b -c -d -e -f -n -o -p -s -t -w -x -y -Y
 --accelerator-trace --after-report-ready --auto-report-name --backtrace --capture-range
 --capture-range-end --clock-frequency-changes --command-file --cpu-cluster-events --cpu-core-events
 --cpu-core-metrics --cpu-socket-events --cpu-socket-metrics --cpuctxsw --cuda-event-trace
 --cuda-flush-interval --cuda-graph-trace --cuda-memory-usage --cuda-trace-all-apis
 --cuda-trace-scope --cuda-um-cpu-page-faults --cuda-um-gpu-page-faults --cudabacktrace --dask
 --debug-symbols --defer-report --delay --duration --duration-frames
 --dx-force-declare-adapter-removal-support --dx12-gpu-workload --dx12-wait-calls --el1-sampling
 --el1-sampling-config --enable --env-var --etw-provider --event-sample --event-sampling-frequency
 --event-sampling-interval --export --flush-on-cudaprofilerstop --force-overwrite --ftrace
 --ftrace-keep-user-config --gpu-metrics-device --gpu-metrics-devices --gpu-metrics-frequency
 --gpu-metrics-set --gpu-video-device --gpuctxsw --hotkey-capture --ib-net-info-devices
 --ib-net-info-files --ib-net-info-output --ib-switch-congestion-device
 --ib-switch-congestion-devices --ib-switch-congestion-nic-device --ib-switch-congestion-percent
 --ib-switch-congestion-threshold-high --ib-switch-metrics-device --ib-switch-metrics-devices
 --ib-switch-metrics-nic-device --inherit-environment --injection-use-detours --isr --kill --mpi-impl
 --nic-metrics --nvtx-capture --nvtx-domain-exclude --nvtx-domain-include --opengl-gpu-workload
 --os-events --osrt-backtrace-depth --osrt-backtrace-stack-size --osrt-backtrace-threshold
 --osrt-file-access --osrt-threshold --output --process-scope --python-backtrace
 --python-functions-trace --python-nvtx-annotations --python-sampling --python-sampling-frequency
 --pytorch --qnx-kernel-events --qnx-kernel-events-mode --resolve-symbols --retain-etw-files --run-as
 --sample --samples-per-backtrace --sampling-frequency --sampling-period --sampling-trigger
 --session-new --show-output --soc-metrics --soc-metrics-frequency --soc-metrics-set
 --start-frame-index --start-later --stats --stop-on-exit --storage-devices --storage-metrics
 --system-wide --trace --trace-fork-before-exec --vsync --vulkan-gpu-workload --wait
 --wddm-additional-events --wddm-backtraces --xhv-trace --xhv-trace-events '
nsys_flags=' -h -v --help --version '
nvprof_valued=' -a -e -i -m -o -t -u
 --aggregate-mode --annotate-mpi --concurrent-kernels --context-name --continuous-sampling-interval
 --cpu-profiling --cpu-profiling-explain-ccff --cpu-profiling-frequency --cpu-profiling-max-depth
 --cpu-profiling-mode --cpu-profiling-percentage-threshold --cpu-profiling-scope
 --cpu-profiling-show-ccff --cpu-profiling-show-library --cpu-profiling-thread-mode
 --cpu-profiling-unwind-stack --cpu-thread-tracing --demangling --device-buffer-size
 --device-cdp-buffer-size --devices --event-collection-mode --events --export-profile
 --import-profile --kernel-latency-timestamps --kernels --log-file --metrics
 --normalized-time-unit --openacc-profiling --openacc-summary-mode --openmp-profiling
 --pc-sampling-period --process-name --profile-api-trace --profile-from-start
 --profiling-semaphore-pool-size --replay-mode --skip-kernel-replay-save-restore
 --source-level-analysis --stream-name --system-profiling --timeout --trace
 --track-memory-allocations --unified-memory-profiling '
nvprof_flags=' -f -h -s -V
 --analysis-metrics --csv --dependency-analysis --force-overwrite --help --print-api-summary
 --print-api-trace --print-dependency-analysis-trace --print-gpu-summary --print-gpu-trace
 --print-nvlink-topology --print-openacc-constructs --print-openacc-summary --print-openacc-trace
 --print-openmp-summary --print-summary --print-summary-per-gpu --profile-all-processes
 --profile-child-processes --query-events --query-metrics --quiet --version '

# ---- Our own options.

ranks=all scratch_wanted='' grace=10 program_word='' has_program_word='' with_export=''
while [ $# -gt 0 ]; do
    case $1 in
    --ranks | --scratch | --grace | --program)
        [ $# -gt 1 ] || die "$1 needs a value"
        option=$1=$2
        shift 2
        ;;
    --)
        shift
        break
        ;;
    -h | --help)
        sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p;}' "$0"
        exit 0
        ;;
    -*)
        option=$1
        shift
        ;;
    *) break ;;
    esac
    case $option in
    --ranks=*) ranks=${option#*=} ;;
    --scratch=*) scratch_wanted=${option#*=} ;;
    --grace=*) grace=${option#*=} ;;
    --program=*) program_word=${option#*=} has_program_word=yes ;;
    --export) with_export=yes ;;
    *) die "no such option: $option; see --help" ;;
    esac
done
case $grace in '' | *[!0-9]*) die "--grace $grace is no number of seconds" ;; esac

# ---- The profiler's line: the program's place in it, its outputs, whether it may overwrite.

profiler=${1-}
profiler=${profiler##*/}
case $profiler in
nsys)
    [ "${2-}" = profile ] || die "not a line of a profiler: nsys ${2-}; put nsys profile … behind --"
    words=2 valued=$nsys_valued flags=$nsys_flags suffixes='.nsys-rep .qdrep' default=report
    ;;
nvprof)
    words=1 valued=$nvprof_valued flags=$nvprof_flags default=report.nvprof
    suffixes='.nvprof .nvvp .prof .sqlite .log .txt .csv'
    ;;
'') die "no command is given: nsysconv-rank.sh -- nsys profile -o train ./train" ;;
*) die "not a line of a profiler: $profiler; put nsys profile … or nvprof … behind --" ;;
esac
valued=$(printf '%s' "$valued" | tr '\n' ' ') flags=$(printf '%s' "$flags" | tr '\n' ' ')

marked=0
if [ -n "$has_program_word" ]; then
    i=0
    for argument do
        i=$((i + 1))
        if [ "$i" -gt $words ] && [ "$argument" = "$program_word" ]; then
            marked=$i
            break
        fi
    done
    [ $marked -gt 0 ] || die "--program $program_word is not an argument of the line"
fi

output_at=0 output_head='' output_value='' log_at=0 log_head='' log_value=''
overwrites='' program_at=0

# An option and its value have been read: where it stands, what is before the value in that argument.
took() { # name index head value
    case $profiler$1 in
    nsys-o | nsys--output | nvprof-o | nvprof--export-profile)
        output_at=$2 output_head=$3 output_value=$4
        ;;
    nvprof--log-file) log_at=$2 log_head=$3 log_value=$4 ;;
    nsys-f | nsys--force-overwrite)
        case $4 in [Tt][Rr][Uu][Ee] | [Yy][Ee][Ss] | 1) overwrites=yes ;; *) overwrites='' ;; esac
        ;;
    nvprof-f | nvprof--force-overwrite) overwrites=yes ;;
    esac
}

i=0 pending=''
for argument do
    i=$((i + 1))
    [ "$i" -gt $words ] || continue
    if [ "$i" -eq $marked ]; then
        program_at=$i
        break
    fi
    if [ -n "$pending" ]; then
        took "$pending" $i '' "$argument"
        pending=''
        continue
    fi
    case $argument in
    --)
        [ "$marked" -eq 0 ] || continue
        program_at=$((i + 1))
        break
        ;;
    --*=*)
        took "${argument%%=*}" $i "${argument%%=*}=" "${argument#*=}"
        continue
        ;;
    -?=*)
        name=${argument%%=*}
        took "$name" $i "$name=" "${argument#*=}"
        continue
        ;;
    --* | -?) name=$argument ;;
    -?*)
        name=${argument%"${argument#??}"}
        took "$name" $i "$name" "${argument#??}"
        continue
        ;;
    *)
        [ "$marked" -eq 0 ] || continue # the value of an option that is not known
        program_at=$i
        break
        ;;
    esac
    case $valued in
    *" $name "*)
        [ $((i + 1)) -eq $marked ] || pending=$name
        continue
        ;;
    esac
    case $flags in
    *" $name "*) took "$name" $i '' '' ;;
    *)
        [ $marked -gt 0 ] || die "the option $name of $profiler is not known here: where the program \
begins cannot be told. Write $name=VALUE if it takes a value, or --program WORD before the --."
        ;;
    esac
done
if [ $program_at -eq 0 ] || [ $program_at -gt $# ]; then
    die "there is no program in this line of $profiler"
fi

# ---- What the launcher tells, as nsysconv/launch.py reads it.

# The value of an allow-listed variable where it is a whole number; else nothing.
number() {
    eval "number=\${$1-}"
    case $number in '' | *[!0-9]* | ??????????*) number='' ;; esac
    while :; do case $number in 0?*) number=${number#0} ;; *) break ;; esac done
}
word() {
    eval "word=\${$1-}"
    word=$(printf '%s' "$word" | sed 's/ƒ/f/g')
    case $word in '' | *[!][A-Za-z0-9_.:-]*) word='' ;; esac
    [ ${#word} -le 64 ] || word=''
}

rank='' local_rank='' world_size='' node=''
told() { # rank local_rank world_size node
    number "$1"
    [ -n "$number" ] || return 0
    [ -n "$rank" ] || rank=$number
    [ "$rank" = "$number" ] || return 0
    if [ -z "$local_rank" ] && [ "$2" != - ]; then number "$2"; local_rank=$number; fi
    if [ -z "$world_size" ] && [ "$3" != - ]; then number "$3"; world_size=$number; fi
    if [ -z "$node" ] && [ "$4" != - ]; then number "$4"; node=$number; fi
}
if [ -n "${TORCHELASTIC_RUN_ID+set}" ]; then told RANK LOCAL_RANK WORLD_SIZE GROUP_RANK; fi
told OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_SIZE -
told MV2_COMM_WORLD_RANK MV2_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_SIZE -
told JSM_NAMESPACE_RANK JSM_NAMESPACE_LOCAL_RANK JSM_NAMESPACE_SIZE -
told PMI_RANK MPI_LOCALRANKID PMI_SIZE -
told PMI_RANK PMI_LOCAL_RANK PMI_SIZE -
told PALS_RANKID PALS_LOCAL_RANKID - PALS_NODEID
told PMIX_RANK - - -
told FLUX_TASK_RANK FLUX_TASK_LOCAL_ID FLUX_JOB_SIZE -
told RANK LOCAL_RANK WORLD_SIZE -
if [ -n "${SLURM_STEP_ID+set}" ]; then
    told SLURM_PROCID SLURM_LOCALID SLURM_STEP_NUM_TASKS SLURM_NODEID
    told SLURM_PROCID SLURM_LOCALID SLURM_NTASKS SLURM_NODEID
fi

job=''
find_job() {
    word FLUX_JOB_ID
    if [ -n "$word" ]; then job="flux $word" && return; fi
    number SLURM_JOB_ID
    if [ -n "$number" ]; then
        job="slurm $number"
        number SLURM_ARRAY_JOB_ID
        array=$number
        number SLURM_ARRAY_TASK_ID
        if [ -n "$array" ] && [ -n "$number" ]; then job="slurm ${array}_$number"; fi
        number SLURM_STEP_ID
        if [ -n "$number" ] && [ -z "${OMPI_COMM_WORLD_RANK+set}${MV2_COMM_WORLD_RANK+set}${MPI_LOCALRANKID+set}" ]; then
            job=$job.$number
        fi
        return
    fi
    word PBS_JOBID
    if [ -n "$word" ]; then job="pbs $word" && return; fi
    number LSB_JOBID
    if [ -n "$number" ]; then
        job="lsf $number"
        number LSB_JOBINDEX
        case $number in '' | 0) ;; *) job="${job}[$number]" ;; esac
    fi
}
find_job

# ---- Which ranks.

digits() { case $1 in '' | *[!0-9]* | ??????????*) return 1 ;; esac }

# Whether a term of --ranks holds: 8, 16-31 or %8, of ranks, or with local or node before it.
holds() {
    case $1 in
    local*) have=$local_rank rest=${1#local} what='local rank' ;;
    node*) have=$node rest=${1#node} what='number of the node' ;;
    rank*) have=$rank rest=${1#rank} what=rank ;;
    *) have=$rank rest=$1 what=rank ;;
    esac
    first='' last='' every=''
    case $rest in
    %*) every=${rest#%} ;;
    *-*) first=${rest%%-*} last=${rest#*-} ;;
    *) first=$rest last=$rest ;;
    esac
    if [ -z "$every" ]; then
        for part in "$first" "$last"; do
            digits "$part" || die "--ranks $ranks: $1 names no ranks"
        done
    fi
    case $every in *[!0-9]* | 0* | ??????????*) die "--ranks $ranks: $1 names no ranks" ;; esac
    [ -n "$have" ] || die "--ranks asks for the $what, which no variable of a launcher tells"
    if [ -n "$every" ]; then
        [ $((have % every)) -eq 0 ]
    else
        [ "$have" -ge "$first" ] && [ "$have" -le "$last" ]
    fi
}

chosen=no
choose() {
    [ "$ranks" != all ] || { chosen=yes && return; }
    case $ranks in '' | ,* | *, | *,,*) die "--ranks $ranks: an item names no ranks" ;; esac
    left=$ranks,
    while [ -n "$left" ]; do
        item=${left%%,*}: left=${left#*,} all=yes
        while [ -n "$item" ]; do
            # Every term is looked at, so that a wrong one is always refused.
            holds "${item%%:*}" || all=no
            item=${item#*:}
        done
        [ $all = no ] || chosen=yes
    done
}
choose
if [ $chosen = no ]; then
    shift $((program_at - 1))
    exec "$@"
fi

# ---- Names and folders.

host=$(uname -n)
command -v "$1" >/dev/null 2>&1 || die "$1: not in PATH, or not to be executed; load its module"

# Whether a pattern has one of these variables in it.
has() { # pattern variable...
    pattern=$1
    shift
    for variable do case $pattern in *"%q{$variable}"*) return 0 ;; esac done
    return 1
}

# The pattern with what tells this rank from the others, before a suffix of a report; in $completed.
complete_name() {
    apart='' plain=$(printf '%s' "$1" | sed 's/%%//g')
    if has "$plain" RANK OMPI_COMM_WORLD_RANK MV2_COMM_WORLD_RANK JSM_NAMESPACE_RANK PMI_RANK \
        PALS_RANKID PMIX_RANK FLUX_TASK_RANK SLURM_PROCID; then
        apart=yes
    else
        where='' which=''
        case $plain in *%h*) where=yes ;; esac
        case $plain in *%p*) which=yes ;; esac
        if has "$plain" HOSTNAME SLURMD_NODENAME SLURM_NODEID GROUP_RANK PALS_NODEID; then where=yes; fi
        if has "$plain" LOCAL_RANK OMPI_COMM_WORLD_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID \
            JSM_NAMESPACE_LOCAL_RANK PMI_LOCAL_RANK PALS_LOCAL_RANKID FLUX_TASK_LOCAL_ID \
            SLURM_LOCALID; then which=yes; fi
        [ -z "$where" ] || [ -z "$which" ] || apart=yes
    fi
    completed=$1
    [ -z "$apart" ] || return 0
    added=''
    if [ -n "$job" ] && ! has "$plain" SLURM_JOB_ID SLURM_JOBID SLURM_ARRAY_TASK_ID LSB_JOBID \
        FLUX_JOB_ID PBS_JOBID; then
        in_a_name "${job#* }"
        added=.$in_a_name
    fi
    if [ -n "$rank" ]; then
        added=$added.rank$rank
    elif [ -n "$local_rank" ]; then
        in_a_name "$host"
        added=$added.$in_a_name.local$local_rank
    fi
    suffix=''
    for known in $suffixes; do
        case $1 in *"$known")
            suffix=$known
            break
            ;;
        esac
    done
    completed=${1%"$suffix"}$added$suffix
}
in_a_name() {
    in_a_name=$(printf '%s' "$1" | sed 's/[^A-Za-z0-9_.-][^A-Za-z0-9_.-]*/_/g; s/^[_.]*//; s/[_.]*$//')
}

# The pattern as the profiler reads it; in $expanded. A second argument stands for %p.
expand() {
    rest=$1 expanded=''
    while :; do
        case $rest in
        *%*)
            expanded=$expanded${rest%%\%*} rest=${rest#*\%}
            case $rest in
            q\{*\}*)
                name=${rest#q\{} name=${name%%\}*} rest=${rest#*\}} is_set=''
                case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) ;; *) eval "is_set=\${$name+set}" ;; esac
                [ -n "$is_set" ] || return 1
                eval "expanded=\$expanded\$$name"
                ;;
            h*) expanded=$expanded$host rest=${rest#h} ;;
            %*) expanded=$expanded% rest=${rest#%} ;;
            p*)
                [ $# -gt 1 ] || return 1
                expanded=$expanded$2 rest=${rest#p}
                ;;
            *) expanded=$expanded% ;;
            esac
            ;;
        *)
            expanded=$expanded$rest
            return 0
            ;;
        esac
    done
}

# The folder, made if need be, in $folder, and the completed name in $completed.
place() {
    case $1 in
    '' | */) die "the output is a folder: $1; name a file in it" ;;
    /*/*) folder=${1%/*} ;;
    /*) folder=/ ;;
    */*) folder=${1%/*} ;;
    *) folder=. ;;
    esac
    expand "$folder" || die "$folder: %p, or a variable that is not set, in the folder of the output"
    folder=$expanded
    mkdir -p -- "$folder" || die "$folder: the folder of the output cannot be made"
    folder=$(cd -- "$folder" && pwd) || die "$expanded: the folder of the output cannot be used"
    complete_name "${1##*/}"
}

[ "$log_value" != %1 ] && [ "$log_value" != %2 ] || log_at=0
if [ "$output_at" -eq 0 ] && [ "$log_at" -eq 0 ]; then output_value=$default output_at=-1; fi
main_folder='' main_name='' log_folder='' log_name=''
if [ "$output_at" -ne 0 ]; then
    place "$output_value"
    main_folder=$folder main_name=$completed
fi
if [ "$log_at" -ne 0 ]; then
    place "$log_value"
    log_folder=$folder log_name=$completed
    [ -n "$main_folder" ] || main_folder=$folder
fi

room() { df -Pk -- "$1" 2>/dev/null | sed -n '2s/  */ /gp' | cut -d ' ' -f 4; }
root=${scratch_wanted:-${TMPDIR:-/tmp}}
[ -z "$scratch_wanted" ] || [ -d "$scratch_wanted" ] || die "$scratch_wanted: no such folder"
free=$(room "$root")
if [ ! -d "$root" ] || [ ! -w "$root" ] || [ "${free:-0}" -lt 262144 ]; then
    say "$root: no room; $main_folder is used as scratch"
    root=$main_folder
fi
scratch=$(mktemp -d "$root/.nsysconv-XXXXXXXX") || die "$root: no folder can be made"
mkdir "$scratch/0" "$scratch/1" "$scratch/tmp"
in_pattern=$(printf '%s' "$scratch" | sed 's/%/%%/g')

# ---- The line with its outputs on scratch; nothing else of it changes.

total=$# i=0
while [ "$i" -lt $total ]; do
    i=$((i + 1))
    argument=$1
    shift
    if [ "$i" -eq "$output_at" ]; then
        argument=$output_head$in_pattern/0/$main_name
    elif [ "$i" -eq "$log_at" ]; then
        argument=$log_head$in_pattern/1/$log_name
    fi
    set -- "$@" "$argument"
    if [ "$i" -eq $words ] && [ "$output_at" -eq -1 ]; then set -- "$@" -o "$in_pattern/0/$main_name"; fi
done

# ---- Run, and pass signals on.

nsys=$1

# What runs in the background of a shell ignores SIGINT; env or perl can undo that.
interrupt=INT
if env --default-signal=INT --default-signal=QUIT true 2>/dev/null; then
    set -- env --default-signal=INT --default-signal=QUIT "$@"
elif command -v perl >/dev/null 2>&1; then
    # shellcheck disable=SC2016 # perl's own variables
    set -- perl -e '@SIG{"INT","QUIT"} = ("DEFAULT") x 2; exec {$ARGV[0]} @ARGV or exit 125' "$@"
else
    interrupt=TERM
fi
if [ "$profiler" = nsys ]; then NSYS_TMPDIR=${NSYS_TMPDIR:-$scratch/tmp} export NSYS_TMPDIR; fi
if [ -n "$scratch_wanted" ]; then TMPDIR=$scratch_wanted export TMPDIR; fi

# The highest process below another that is no tool of the profiler's; in $found.
find_program() {
    found='' level=$1
    processes=$(ps -A -o ppid= -o pid= -o stat=)
    while [ -n "$level" ]; do
        below=''
        for parent in $level; do
            below="$below $(printf '%s\n' "$processes" | while read -r ppid pid state; do
                case $state in Z*) continue ;; esac
                [ "$ppid" != "$parent" ] || printf '%s ' "$pid"
            done)"
        done
        for pid in $below; do
            case $(readlink "/proc/$pid/exe" 2>/dev/null) in
            */nsys* | */nvprof* | */Qdstrm* | */[Nn]sight-[Ss]ystems*) ;;
            *) found=$pid && return 0 ;;
            esac
        done
        level=$(printf '%s' "$below" | sed 's/^ *$//')
    done
    return 1
}

step=0 timer='' woken='' last=0 undelivered=''
start_timer() {
    stop_timer
    (
        trap 'kill "$sleeping" 2>/dev/null; exit 0' TERM
        trap '' INT HUP QUIT USR1 USR2
        sleep "$1" <&- >/dev/null 2>&1 &
        sleeping=$!
        wait "$sleeping" && kill -s ALRM $$
    ) 3<&- &
    timer=$!
}
stop_timer() {
    [ -z "$timer" ] || kill "$timer" 2>/dev/null
    timer=''
}
deliver() {
    [ -n "$undelivered" ] || return 0
    if find_program "$child"; then
        for name in $undelivered; do kill -s "$name" "$found" 2>/dev/null; done
        undelivered=''
    else
        # It has not been started yet, or it has ended: look again in a while.
        start_timer 1
    fi
}
end_more() {
    step=$((step + 1))
    if [ "$step" -eq 2 ]; then
        if find_program "$child"; then
            say 'the program has not ended: the profiler is interrupted'
            kill -s "$interrupt" "$child" 2>/dev/null
        fi
        start_timer 300
    elif [ "$step" -gt 2 ]; then
        say 'the profiler has not ended: it is killed'
        if find_program "$child"; then kill -s KILL "$found" 2>/dev/null; fi
        kill -s KILL "$child" 2>/dev/null
    fi
}
on_end() {
    woken=yes
    now=$(date +%s)
    # Batch systems send several signals at once.
    [ $((now - last)) -ge 2 ] || return 0
    last=$now
    if [ "$step" -eq 0 ]; then
        step=1
        say "SIG$1: the program is told, and the report is waited for"
        undelivered=$1 ends_at=$((now + grace))
        deliver
        [ -n "$undelivered" ] || start_timer "$grace"
    else
        end_more
    fi
}
on_time() {
    woken=yes
    if [ -n "$undelivered" ] && { [ "$step" -ne 1 ] || [ "$(date +%s)" -lt "$ends_at" ]; }; then
        deliver
        if [ -z "$undelivered" ] && [ "$step" -eq 1 ]; then start_timer "$grace"; fi
    elif [ "$step" -ge 1 ]; then
        undelivered=''
        end_more
    fi
}

now_ns() {
    ns=$(date +%s%N)
    case $ns in *[!0-9]* | ?????????????) ns=$(date +%s)000000000 ;; esac
    printf '%s' "$ns"
}
start_ns=$(now_ns)
trap 'on_end TERM' TERM
trap 'on_end INT' INT
trap 'on_end HUP' HUP
trap 'on_end QUIT' QUIT
trap 'woken=yes undelivered="$undelivered USR1"; deliver' USR1
trap 'woken=yes undelivered="$undelivered USR2"; deliver' USR2
trap on_time ALRM
exec 3<&0
"$@" <&3 3<&- &
child=$!
before=0
while :; do
    woken=''
    wait "$child"
    status=$?
    if [ -n "$woken" ]; then
        # A signal ended the waiting, not the profiler.
        before=$status
        continue
    fi
    [ "$status" -ne 127 ] || [ $before -eq 0 ] || kill -0 "$child" 2>/dev/null || status=$before
    break
done
stop_timer
# From here on nothing is broken off: a report that is being moved is worth more than the time.
trap '' TERM INT HUP QUIT USR1 USR2 ALRM
end_ns=$(now_ns)

# ---- Bring home what it left.

problems=''
problem() { problems="$problems${problems:+, }\"$(json "$1")\"" && told_problem="${told_problem-}; $1"; }
json() { printf '%s' "$1" | tr -d '\000-\037\177' | sed 's/\\/\\\\/g; s/"/\\"/g'; }
safe=yes

# A file to the folder that it is kept in, whole or not at all; its new name in $kept. A third argument:
# nothing else of a report may have that stem.
bring() {
    base=${1##*/} kept=''
    partial="$2/.$base.$host-$$.partial"
    rm -f -- "$partial"
    if ! { ln -- "$1" "$partial" 2>/dev/null || cp -- "$1" "$partial"; }; then
        rm -f -- "$partial"
        return 1
    fi
    sync -- "$partial" 2>/dev/null
    if [ -n "$overwrites" ]; then
        mv -f -- "$partial" "$2/$base" || return 1
        kept=$base
        return 0
    fi
    stem=${base%.*} suffix=.${base##*.} n=1 own=$stem
    [ "$stem" != "$base" ] || suffix=''
    while :; do
        if [ -z "${3-}" ] || ! taken "$2/$own" .nsysconv.json .sqlite .db; then
            if ln -- "$partial" "$2/$own$suffix" 2>/dev/null; then
                rm -f -- "$partial"
                break
            fi
            if [ ! -e "$2/$own$suffix" ] && (set -C && : >"$2/$own$suffix") 2>/dev/null; then
                # No links here: the name is claimed, then replaced.
                mv -f -- "$partial" "$2/$own$suffix" && break
                return 1
            fi
            [ -e "$2/$own$suffix" ] || { rm -f -- "$partial" && return 1; }
        fi
        n=$((n + 1)) own=$stem-$n
    done
    kept=$own$suffix
}
taken() { # stem suffix...
    taken=$1
    shift
    for known do [ ! -e "$taken$known" ] || return 0; done
    return 1
}
or_null() { if [ -n "$1" ]; then printf '%s' "$1"; else printf null; fi; }
text_or_null() { if [ -n "$1" ]; then printf '"%s"' "$(json "$1")"; else printf null; fi; }

record() { # stem report
    by_signal=''
    if [ "$status" -gt 128 ] && [ "$status" -le 193 ]; then by_signal=$((status - 128)); fi
    path="$main_folder/$1.nsysconv.json"
    if {
        printf '{\n "nsysconv_record": 1,\n'
        printf ' "rank": %s,\n' "$(or_null "$rank")"
        printf ' "local_rank": %s,\n' "$(or_null "$local_rank")"
        printf ' "world_size": %s,\n' "$(or_null "$world_size")"
        printf ' "host": %s,\n' "$(text_or_null "$host")"
        printf ' "job": %s,\n' "$(text_or_null "$job")"
        printf ' "profiler": "%s",\n' "$profiler"
        printf ' "report": %s,\n' "$(text_or_null "$2")"
        printf ' "store": null,\n "exit_status": %s,\n' "$status"
        printf ' "signal": %s,\n' "$(or_null "$by_signal")"
        printf ' "start_utc_ns": %s,\n "end_utc_ns": %s,\n' "$start_ns" "$end_ns"
        printf ' "problems": [%s]\n}\n' "$problems"
    } >"$path.$$.partial" 2>/dev/null && mv -f -- "$path.$$.partial" "$path"; then
        return 0
    fi
    rm -f -- "$path.$$.partial"
    say "$path: the record could not be written"
}

who="rank ${rank:-unknown} on $host"
found_any=''
one_report() { # file
    found_any=yes problems='' told_problem='' kept=''
    size=$(wc -c <"$1" | tr -d ' ')
    [ "$size" -gt 0 ] || problem 'the report is empty'
    if bring "$1" "$main_folder" stem; then
        report=$kept stem=${kept%.*}
    else
        report='' stem=${1##*/} stem=${stem%.*} safe=''
        problem "the report could not be kept: it is $1 on $host"
    fi
    record "$stem" "$report"
    if [ -n "$with_export" ] && [ "$profiler" = nsys ] && [ "$size" -gt 0 ]; then
        export_one "$1"
        record "$stem" "$report"
    fi
    seconds=$(((end_ns - start_ns) / 1000000000))
    line="$who: $main_folder/${report:-$stem}, $((size / 1000)) kB, $seconds s"
    [ "$status" -eq 0 ] || line="$line, exit status $status"
    say "$line$told_problem"
}
export_one() {
    exported=${1%.*}.sqlite
    if [ "$step" -gt 0 ]; then
        problem 'not exported: the job was being ended'
    elif [ -e "$exported" ]; then
        return 0 # nsys profile --export=sqlite has made it, and it is brought home with all else
    elif "$nsys" export --type sqlite --output "$exported" "$1" >"$scratch/export.log" 2>&1; then
        mv -f -- "$exported" "$scratch/$stem.sqlite" 2>/dev/null
        bring "$scratch/$stem.sqlite" "$main_folder" || problem 'the export could not be kept'
    else
        code=$?
        rm -f -- "$exported"
        problem "nsys could not export the report (exit status $code)"
        say "${1##*/}: nsys says: $(tail -n 1 "$scratch/export.log")"
    fi
}

for file in "$scratch"/0/* "$scratch"/0/.[!.]*; do
    [ -f "$file" ] || continue
    case $profiler${file##*/} in
    nsys*.nsys-rep | nsys*.qdrep | nvprof*) one_report "$file" ;;
    esac
done
if [ -z "$found_any" ] && [ "$profiler" = nsys ]; then
    # One that could not get its name is still among the temporary files.
    find "$scratch/tmp" -type f -name '*.nsys-rep' >"$scratch/left" 2>/dev/null
    while IFS= read -r file; do one_report "$file"; done <"$scratch/left"
fi
[ "$output_at" -ne 0 ] || for file in "$scratch"/1/*; do
    if [ -f "$file" ]; then one_report "$file"; fi
done

others() { # file folder
    if ! bring "$1" "$2"; then
        say "${1##*/} could not be kept: it is $1"
        safe=''
    fi
}
for file in "$scratch"/0/*; do
    [ -f "$file" ] || continue
    case $profiler${file##*/} in nsys*.nsys-rep | nsys*.qdrep | nvprof*) ;; *) others "$file" "$main_folder" ;; esac
done
[ "$output_at" -eq 0 ] || for file in "$scratch"/1/*; do
    if [ -f "$file" ]; then others "$file" "$log_folder"; fi
done
find "$scratch/tmp" -type f -name '*.qdstrm' >"$scratch/left" 2>/dev/null
while IFS= read -r file; do
    others "$file" "$main_folder"
    [ -z "$kept" ] || say "$main_folder/$kept: nsys could not make a report of it; try: nsys import"
done <"$scratch/left"

if [ -z "$found_any" ]; then
    why="$profiler wrote none"
    [ "$status" -eq 0 ] || why="$profiler ended with status $status"
    problem "no report: $why"
    name=${main_name:-$log_name}
    for known in $suffixes; do name=${name%"$known"}; done
    expand "$name" "$$" || expanded=$name
    stem=$(printf '%s' "$expanded" | tr / _) n=1 own=$stem
    while taken "$main_folder/$own" .nsysconv.json .sqlite .db .nsys-rep .qdrep; do
        n=$((n + 1)) own=$stem-$n
    done
    record "$own" ''
    say "$who: no report: $why"
fi
[ -z "$safe" ] || rm -rf -- "$scratch"
exit "$status"
