"""Words of other languages that stand in headings, captions and cells of benchmarks, put into English."""

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
COUNTED = re.compile(r"(\d{1,5}) ?(?:张显卡|块显卡|张卡|块卡|张GPU|块GPU|卡)")
NODES_AND_CARDS = re.compile(r"(\d{1,4}|单) ?(?:机|节点) ?(\d{1,3}) ?卡")
# Whole headings of languages with spaces between their words.
WHOLE = {
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
_ENGLISH = {word: english for english, words in WRITTEN_TOGETHER.items() for word in words.split("|")}
# A single Korean syllable is a unit where it stands alone: in other words it means nothing of the kind.
_ALONE = "(?<![가-힣]){}(?![가-힣])"
_TOGETHER = re.compile(
    "|".join(
        _ALONE.format(word) if re.fullmatch("[가-힣]", word) else re.escape(word)
        for word in sorted(_ENGLISH, key=len, reverse=True)
    ),
    re.I,
)
_WHOLE = {word: english for english, words in WHOLE.items() for word in words.split("|")}
_WHOLE_WORD = re.compile(rf"(?i)({'|'.join(sorted(map(re.escape, _WHOLE), key=len, reverse=True))})(?= ?[(\[]|$)")
_EAST_ASIAN = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff01-\uff5e]")


@lru_cache(maxsize=20_000)
def in_english(text: str) -> str:
    """Return a heading or a cell with the words that benchmarks use put into English; others stay as they are."""
    if not _EAST_ASIAN.search(text):
        m = _WHOLE_WORD.match(text.strip())
        return text if m is None else _WHOLE[m[1].lower()] + text.strip()[m.end() :]
    text = text.translate(_FULL_WIDTH)
    # On several nodes the cards of each are meant, or all of them.
    text = NODES_AND_CARDS.sub(lambda m: f" {m[2]} gpus " if m[1] in ("1", "单") else f" {m[1]} nodes ", text)
    text = COUNTED.sub(r" \1 gpus ", text)
    text = _TOGETHER.sub(lambda m: f" {_word(m[0])} ", text)
    text = re.sub(r"/ +(s|ms|min|hours)\b", r"/\1", text)
    return re.sub(r"([(\[]) +| +([)\]])", r"\1\2", " ".join(text.split()))


def _word(printed: str) -> str:
    return _ENGLISH.get(printed) or _ENGLISH.get(printed.lower()) or printed
