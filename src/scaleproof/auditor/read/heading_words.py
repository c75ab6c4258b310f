"""The words of headings and keys for each kind of figure.

Phrases are separated by "|" and matched as a whole, in lower case, after units, statistics and scopes are taken off.
"""

_PHRASES_BY_KIND = """\
devices: gpus|gpu count|number of gpus|number of gpu|num gpus|n gpus|no of gpus|gpus used|gpus total|total gpus|gpu num|
    ngpus|ngpu|num gpu|n gpu|gpu number|devices|num devices|number of devices|n devices|device count|accelerators|
    number of accelerators|chips|num chips|tpus|gpus count|cards|number of cards|npus|of gpus|of gpu|count of gpus|
    h100s|a100s|gcds|ddp gpus
processes: world size|workers|num workers distributed|ranks|number of ranks|processes|num processes|number of processes|
    nproc|nprocs|np|n procs|worker count|number of workers|replicas|num ranks|num procs|mpi ranks|mpi processes
nodes: nodes|number of nodes|num nodes|nnodes|n nodes|node count|hosts|machines|number of machines|of nodes
devices_per_node: gpus per node|num gpus per node|gpu per node|devices per node|nproc per node|gpus node|ngpus per node|
    gpu node
global_batch: global batch|global batch size|gbs|glob bs|glob batch|effective batch|effective batch size|total batch|
    total batch size|global bs|batch size global|batch size total|overall batch size|eff batch|eff batch size|eff bs
global_batch_tokens: batch size tokens|batch tokens|tokens per batch|tokens per step|global batch tokens|tokens batch|
    tokens step|batch size in tokens|global batch size tokens|global batch size t|batch size t|
    tokens per optimizer step|tokens optimizer step|tokens per update|tokens per iteration|tokens iteration
micro_batch: micro batch|micro batch size|mbs|local batch|local batch size|microbatch size|microbatch|device batch size|
    microbs|micro bs|mic bs|mic batch|device train microbatch size|batch size local|local bs
batch: batch|batch size|bs|batchsize|batch sz|mini batch|mini batch size|minibatch size|b
accumulation: grad accum|grad accumulation|gradient accumulation|gradient accumulation steps|accumulation|
    accumulation steps|accum|accum steps|grad accum steps|ga|gas|grad acc|grad acc steps|gradacc|acc steps|
    grad accumulation steps|ga steps|pp chunks|micro batches|microbatches|num microbatches
seq_len: seq len|seqlen|sequence length|seq length|context length|context|ctx|ctx len|context size|context window|
    block size|sequence|seq|n ctx|sl|tokens per sequence
steps: steps|iterations|iters|num steps|number of steps|total steps|num iterations|optimizer steps|updates|n steps|
    number of iterations|num iters|total iterations|steps run|timed steps
epochs: epochs|num epochs|number of epochs|n epochs|total epochs|epochs trained
epoch: epoch|epoch idx|epoch number|epoch num
step: step|iteration|iter|global step|global steps|num updates
samples: samples|dataset size|train size|num samples|number of samples|examples|training set size|samples total|
    total samples|n samples
tokens: tokens|total tokens|total token|tokens processed|tokens trained|tokens seen|num tokens|
    planned tokens|train tokens
parameters: parameters|params|num params|number of parameters|n params|total params|parameter count|param count|
    total parameters|trainable params|trainable parameters|num parameters|of parameters|of params|model size params
zero_stage: zero stage|zero|zs|deepspeed stage|stage|deepspeed zero stage
tensor_parallel: tp|tensor parallel|tensor parallel size|tp size|tensor parallelism
pipeline_parallel: pp|pipeline parallel|pipeline parallel size|pp size|pipeline parallelism
data_parallel: dp size|data parallel size|dp degree
learning_rate: lr|learning rate|base lr|peak lr
step_time_s: step time|time per step|time step|iteration time|iter time|time per iteration|time iteration|time iter|
    batch time|time per batch|time batch|step latency|time per iter|step duration|step times|per step time|
    seconds per step|latency per step|iteration latency|seconds per iteration|per iteration time|per step|
    time of iteration|ms per step|elapsed time per iteration|secs per step|seconds iter|step wall|
    time per optimizer step|train step timing|step timing
epoch_time_s: epoch time|time per epoch|time epoch|epoch duration|seconds per epoch|per epoch time|epoch latency|
    per epoch|latency per epoch|runtime per epoch|wall clock per epoch|sec per epoch|epoch seconds|duration per epoch|
    epoch runtime|epoch times
total_time_s: total time|wall|training time|wall time|wall clock|wall clock time|runtime|run time|elapsed|elapsed time|
    total runtime|duration|time to train|est time to train|total train time|execution time|total duration|wallclock|
    wallclock time|end to end time|total elapsed time|total elapsed|e2e time|total wall clock|total run time|time total|
    walltime|training wall time|total execution time|job time|time to solution|train time total|time taken|total seconds
time_s: time|took|seconds|timing|times|sec|time elapsed
device_time_s: gpu time|device time
communication_time_s: communication time|comm time|communication|allreduce time|all reduce time|sync time|
    synchronization time|comm|nccl time|gradient sync time|grad sync time|allreduce
compute_time_s: compute time|computation time|computation|compute|forward backward time|fwd bwd time|forward|backward|
    fwd|bwd|forward pass|backward pass|forward time|backward time|fwd time|bwd time|optimizer step|optimizer time|
    opt step
data_time_s: data time|data loading time|dataload time|data load time|data wait|data wait time|dataloader time|
    data loading|loading time
latency_s: latency
tokens_per_s: tokens per second|tokens sec|tokens s|tokens per sec|tok s|tok sec|tokens second|token throughput|
    tokens throughput|tps|wps|tgs|tok per sec|tokens per s|throughput tokens per sec|throughput tokens per second|
    throughput tokens|tok per s|throughput tok s
samples_per_s: samples per second|samples sec|samples s|samples per sec|images per second|images sec|images s|
    images per sec|img sec|img s|imgs sec|imgs s|samples second|images second|examples per second|examples sec|
    sequences per second|sequences sec|seq s|throughput samples per sec|throughput samples per second|
    throughput images per sec|sample throughput|sps|fps|examples per sec|samples per s|img per sec|sample s|
    throughput samples sec|throughput img s|throughput imgs s|image throughput|curr samples per sec
steps_per_s: steps per second|steps sec|steps s|iterations per second|it s|iter s|iters s|iterations sec|steps per sec|
    its s|iter sec|iters per sec|it sec|iterations s|batches per second|batches s|batches sec|iters sec|batch s
rate: throughput|speed|processing speed|end to end throughput|training rate|system throughput|aggregate throughput|
    performance|ips|output throughput|output token throughput|generation throughput
speedup: speedup|speed up|speedup factor|scaling factor|relative speed|acceleration|speedups|relative throughput|
    relative performance|strong scaling speedup|throughput speedup|throughput ratio|speed ratio|scaling speedup|
    time speedup|x speedup|throughput scaling|speedup ratio|overall speedup|speedup x
efficiency: efficiency|scaling efficiency|parallel efficiency|scaling eff|eff|scale efficiency|
    parallelization efficiency|scaling percentage|weak scaling efficiency|strong scaling efficiency|parallel eff|
    linear scaling|linearity|of linear|of ideal|of linear scaling|of ideal scaling|weak scaling|strong scaling|scaling|
    weak scaling eff|throughput efficiency
change: improvement|change|delta|gain|reduction|difference|speed gain|performance gain|throughput gain|diff|
    improvements|throughput improvement|throughput change|time reduction|time saved|time savings|
    performance improvement|vs baseline|memory reduction|memory savings|memory saving|memory saved|slowdown
hfu: hfu|hardware flops utilization|hardware flops utilisation
mfu: mfu|model flops utilisation|flops utilization|flops mfu|bf16 mfu|of peak flops
flops_per_s: tflops|flops|tflop s|tflops s|throughput tflops|gflops|tflops per second|compute throughput|pflops|
    throughput per gpu tflop s gpu|model flops per second
memory_bytes: memory|mem|vram|peak memory|memory usage|memory allocated|memory reserved|memory used|memory footprint|
    peak vram|vram usage|mem usage|memory consumption|peak mem|allocated memory|reserved memory|ram|mem allocated|
    mem reserved|vram used|peak memory allocated|peak memory reserved|cuda memory|active memory|memory peak|mem peak|
    mem used|peak memory usage|peak allocated|peak reserved|memory cost|peak allocated memory|peak active memory
utilization: gpu utilisation|utilization|util|sm utilization|gpu usage|sm util|gpu util pct|gpu load|gpu efficiency
communication_share: communication overhead|comm overhead|communication share|communication fraction|comm fraction|
    sync overhead|communication percent|comm pct|comm share|allreduce share|communication pct|communication ratio|
    comm ratio
bandwidth_bytes_per_s: bandwidth|memory bandwidth|bus bandwidth|algbw|busbw|algo bandwidth|network bandwidth|
    nccl bandwidth|allreduce bandwidth
power_w: power|power draw|power usage|power consumption|board power
energy_j: energy|energy consumption|energy used|total energy
cost: cost|total cost|cloud cost|price|cost usd|total price
price_per_s: hourly price|hourly rate|hourly cost|price per hour|cost per hour
gradient_norm: grad norm|gradient norm|gradnorm|grad l2 norm|global grad norm|total grad norm|gnorm
loss: loss|loss step|step loss|loss epoch|lm loss|ending loss|end loss|reduced train loss
val_loss: val loss|validation loss|eval loss|test loss|valid loss|dev loss
perplexity: perplexity|ppl|val ppl|validation perplexity|test perplexity|val perplexity|eval perplexity|valid ppl|
    test ppl
accuracy: accuracy|acc|top 1|top1|top 1 accuracy|top1 accuracy|val acc|val accuracy|test accuracy|validation accuracy|
    test acc|top 1 acc|val top 1|eval accuracy|acc1|top 5|top5|top 5 accuracy
repeats: runs|repeats|trials|num runs|number of runs|repetitions|seeds|n runs|num seeds|replicates|n
strategy: strategy|parallelism|parallel strategy|distributed strategy|parallelization|parallelization strategy|sharding|
    sharding strategy|engine|distributed backend|distribution strategy|parallel mode|algorithm|approach|technique|
    distributed|parallelism strategy
precision: precision|dtype|data type|mixed precision|amp|numeric precision|compute dtype|float type|numerical precision
model: model|model name|architecture|network|backbone|arch|model type|models|llm|base model|model size|
    network architecture|model config
dataset: dataset|data|data set|corpus|dataset name|task|workload
device: gpu|device|gpu type|gpu model|gpu name|hardware|accelerator|device name|device type|accelerator type|
    machine type|instance type|instance|system|machine|platform|cluster|node type|hw|gpu s|devices used|compute|shape
backend: backend|comm backend|communication backend|framework|library|software|implementation|launcher
run: run|experiment|config|configuration|setup|setting|method|mode|name|variant|case|scenario|id|exp|run name|
    experiment name|benchmark|test|version|settings|optimization|type|job|run id|label|stage name|solution|exp name|
    configurations|job id|experiments|methods|configs|scheme|recipe|option|trial name|test name|system config|
    model config name|phase
status: status|result|outcome|verdict|pass
text: notes|note|comment|comments|description|date|source|link|log|logs|remarks|commit|remark|details|key observation|
    observation|reference|url|file|run dir|path|timestamp|explanation|reason|author|wandb|meaning|when to use|best for|
    use case|why|pros|cons|seed|output|metrics path|run dir curated|config file|started at|ended at|created at|hostname|
    host|node name|driver|cuda|cuda version|pytorch version|torch version|python version|torch|user|analysis|
    num input tokens seen|comments notes|interpretation|takeaway|insight|recommendation
metric: metric|metrics|measure|quantity|measurement|statistic|parameter|aspect|property|indicator|category|feature|item|
    kpi|field|key
"""


def _read_phrases(table: str) -> dict[str, str]:
    """Return kind -> its phrases, separated by "|", from lines `kind: phrases`; indented lines continue these."""
    phrases: dict[str, str] = {}
    for line in table.splitlines():
        if not line.startswith(" "):
            kind, _, line = line.partition(": ")
        phrases[kind] = phrases.get(kind, "") + line.strip()
    return phrases


PHRASES = _read_phrases(_PHRASES_BY_KIND)
