"""The words of headings and keys for each kind of figure, and those of other languages.

Phrases are separated by "|" and matched as a whole, in lower case, after units, statistics and scopes are taken off.
"""

import re
from functools import lru_cache

# English -> words that mean it. Chinese, Japanese and Korean have no spaces between words: a longer one counts first.
WRITTEN_TOGETHER = {
    "scaling efficiency": "扩展效率|并行效率|加速效率|扩展性|スケーリング効率|並列化効率|확장 효율",
    "speedup": "加速比|加速倍数|加速倍率|スピードアップ|高速化率|가속비|속도 향상",
    "peak memory": "峰值显存占用|峰值显存|显存峰值|最大显存|峰值内存|ピークメモリ|최대 메모리",
    "memory": "显存占用|显存使用|显存|内存占用|内存|メモリ使用量|メモリ|메모리",
    "memory per gpu": "单卡显存占用|单卡显存|每卡显存",
    "throughput": "吞吐量|吞吐率|吞吐|スループット|처리량",
    "throughput per gpu": "单卡吞吐量|单卡吞吐|每卡吞吐量|每卡吞吐",
    "total throughput": "总吞吐量|总吞吐",
    "step time": "每步时间|单步时间|每步耗时|单步耗时|迭代时间|迭代耗时|步耗时|ステップ時間|스텝 시간",
    "epoch time": "每轮时间|单轮时间|每轮耗时|单轮耗时|每个epoch时间|每epoch时间|每epoch耗时|エポック時間|에폭 시간",
    "total time": "总训练时间|训练总时间|总时间|总耗时|総時間|총 시간",
    "training time": "训练时间|训练耗时|訓練時間|学習時間|训练用时|학습 시간|훈련 시간",
    "mean time": "平均时间|平均耗时",
    "time": "时间|耗时|用时|時間|시간",
    "communication time": "通信时间|通信耗时",
    "compute time": "计算时间|计算耗时",
    "speed": "训练速度|速度|속도",
    "number of gpus": "显卡数量|显卡数|GPU 数量|GPU数量|GPU 数|GPU数|卡数|GPU 개수|GPU 수",
    "number of nodes": "节点数量|节点数|机器数|ノード数|노드 수",
    "number of processes": "进程数量|进程数|プロセス数",
    "global batch size": "全局批大小|全局批次大小|总批大小|总批次大小",
    "batch size": "批次大小|批量大小|批大小|批尺寸|バッチサイズ|배치 크기|배치 사이즈",
    "gradient accumulation": "梯度累积步数|梯度累积|梯度累加",
    "sequence length": "序列长度|系列長",
    "context length": "上下文长度",
    "parameters": "总参数量|参数量|パラメータ数|파라미터 수",
    "accuracy": "准确率|正确率|正解率|정확도",
    "loss": "损失|損失|손실",
    "model": "模型|モデル|모델",
    "dataset": "数据集|データセット|데이터셋",
    "precision": "数据类型|数值精度",
    "strategy": "并行策略|并行方式|训练策略|策略",
    "method": "方法|方式|手法|방법",
    "configuration": "配置|设置|方案|設定|構成|설정|구성",
    "device": "显卡|设备|硬件|デバイス|장치",
    "framework": "框架|フレームワーク|프레임워크",
    "steps": "步数|迭代次数|ステップ数",
    "epochs": "轮数|训练轮数|エポック数",
    "improvement": "提升|改善|提升幅度|향상",
    "gpu utilization": "GPU 利用率|GPU利用率|GPU使用率",
    "utilization": "利用率|使用率|사용률",
    "metric": "指标|項目|지표|항목",
    "notes": "备注|说明|備考|비고|설명",
    "phase": "阶段|段階|단계",
    "theoretical": "理论|理想",
    "measured": "实测|实际",
    "expected": "预期|预计",
    "baseline": "基线|ベースライン|베이스라인",
    "mean": "平均值|平均|평균",
    "images/s": "张/秒|图片/秒|枚/秒",
    "samples/s": "样本/秒|条/秒",
    "ms": "毫秒|ミリ秒",
    "s": "秒|초",
    "min": "分钟|分間|분",
    "hours": "小时|小時|時間数",
    "single gpu": "单机单卡|单卡|シングルGPU|단일 GPU",
    "2 gpus": "双卡",
}
NUMBER_OF_CARDS = re.compile(r"(\d{1,5}) ?(?:张显卡|块显卡|张卡|块卡|张GPU|块GPU|卡)")
NODES_AND_CARDS = re.compile(r"(\d{1,4}|单) ?(?:机|节点) ?(\d{1,3}) ?卡")
# English -> headings of languages with spaces between their words.
EUROPEAN_HEADINGS = {
    "training time": "tiempo de entrenamiento|tempo de treinamento|tempo di addestramento|temps d'entraînement|"
    "temps d'entrainement|trainingszeit",
    "total time": "tiempo total|tempo total|tempo totale|temps total|gesamtzeit|laufzeit",
    "time": "tiempo|tempo|temps|zeit",
    "epoch time": "tiempo por época|tiempo por epoca|tempo por época|tempo per epoca|temps par époque|zeit pro epoche",
    "step time": "tiempo por paso|tempo por passo|tempo per passo|temps par pas|zeit pro schritt",
    "speedup": "aceleración|aceleracion|aceleração|accelerazione|accélération|beschleunigung",
    "efficiency": "eficiencia|eficiência|efficienza|efficacité|effizienz",
    "batch size": "tamaño de lote|tamanho do lote|dimensione del batch|taille de lot|batchgröße",
    "memory": "memoria|memória|mémoire|speicher",
    "model": "modelo|modello|modèle|modell",
    "number of gpus": "número de gpus|numero de gpus|numero di gpu|nombre de gpu|nombre de gpus|anzahl gpus",
    "configuration": "configuración|configuração|configurazione|konfiguration",
}
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x3001: 0x2C}
_ENGLISH_OF_EAST_ASIAN = {word: english for english, words in WRITTEN_TOGETHER.items() for word in words.split("|")}
# A single Korean syllable is a unit where it stands alone: in other words it means nothing of the kind.
_LONE_SYLLABLE = "(?<![가-힣]){}(?![가-힣])"
_EAST_ASIAN_TERM = re.compile(
    "|".join(
        _LONE_SYLLABLE.format(word) if re.fullmatch("[가-힣]", word) else re.escape(word)
        for word in sorted(_ENGLISH_OF_EAST_ASIAN, key=len, reverse=True)
    ),
    re.I,
)
_ENGLISH_OF_EUROPEAN = {word: english for english, words in EUROPEAN_HEADINGS.items() for word in words.split("|")}
_EUROPEAN_HEADING = re.compile(
    rf"(?i)({'|'.join(sorted(map(re.escape, _ENGLISH_OF_EUROPEAN), key=len, reverse=True))})(?= ?[(\[]|$)"
)
_EAST_ASIAN_CHARACTER = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff5e]")


@lru_cache(maxsize=20_000)
def in_english(text: str) -> str:
    """Return a heading or a cell in English, as far as its words are known: "time (ms)" of "Zeit (ms)"."""
    if _EAST_ASIAN_CHARACTER.search(text):
        return _east_asian_in_english(text)
    m = _EUROPEAN_HEADING.match(text.strip())
    return text if m is None else _ENGLISH_OF_EUROPEAN[m[1].lower()] + text.strip()[m.end() :]


def _east_asian_in_english(text: str) -> str:
    """Return a text with its Chinese, Japanese and Korean terms in English: "2机8卡" -> "2 nodes"."""
    text = text.translate(_FULL_WIDTH)
    # On several nodes the cards of each are meant, or all of them.
    text = NODES_AND_CARDS.sub(lambda m: f" {m[2]} gpus " if m[1] in ("1", "单") else f" {m[1]} nodes ", text)
    text = NUMBER_OF_CARDS.sub(r" \1 gpus ", text)
    text = _EAST_ASIAN_TERM.sub(
        lambda m: f" {_ENGLISH_OF_EAST_ASIAN.get(m[0]) or _ENGLISH_OF_EAST_ASIAN.get(m[0].lower(), m[0])} ", text
    )
    # The spaces that this has set around words do not belong behind "/" and in brackets.
    text = re.sub(r"/ +(s|ms|min|hours)\b", r"/\1", text)
    return re.sub(r"([(\[]) +| +([)\]])", r"\1\2", " ".join(text.split()))


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
    tokens step|batch size in tokens|global batch size tokens|
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
step: step|iteration|iter|global step|global steps
samples: samples|dataset size|train size|num samples|number of samples|examples|training set size|samples total|
    total samples|n samples
tokens: tokens|total tokens|total token|tokens processed|tokens trained|tokens seen|num tokens
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
    time per optimizer step
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
    throughput samples sec|throughput img s|throughput imgs s|image throughput
steps_per_s: steps per second|steps sec|steps s|iterations per second|it s|iter s|iters s|iterations sec|steps per sec|
    its s|iter sec|iters per sec|it sec|iterations s|batches per second|batches s|batches sec|iters sec|batch s
rate: throughput|speed|processing speed|end to end throughput|training rate|system throughput|aggregate throughput|
    performance
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
utilization: gpu utilisation|utilization|util|sm utilization|gpu usage|sm util|gpu util pct|gpu load
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
loss: loss|loss step|loss epoch|lm loss|ending loss|end loss
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
    comments notes|interpretation|takeaway|insight|recommendation
metric: metric|metrics|measure|quantity|measurement|statistic|parameter|aspect|property|indicator|category|feature|item|
    kpi|field|key
"""


def _read_phrases(table: str) -> dict[str, str]:
    """Return kind -> its phrases, separated by "|", of a table of `kind: phrases`; indented lines go on with a kind."""
    phrases: dict[str, str] = {}
    for line in table.splitlines():
        if not line.startswith(" "):
            kind, _, line = line.partition(": ")
        phrases[kind] = phrases.get(kind, "") + line.strip()
    return phrases


PHRASES = _read_phrases(_PHRASES_BY_KIND)
