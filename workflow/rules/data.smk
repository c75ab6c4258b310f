"""Corpora: documents, tokenizer, token files. Shared by all campaigns.

Files above 1 MB are `ancient`: Snakemake compares them by date, which a mere touch changes.
What they hold is described, with its sha256, in a small file beside them, which is compared by content.

What needs the network runs where Snakemake runs: compute nodes may have no access. The rest are jobs; a cluster's
profile names a partition without devices for them.
"""


rule corpus_fetch:
    input:
        files=files_to_gather,
    output:
        documents="results/corpora/{corpus}/documents.parquet",
        description="results/corpora/{corpus}/corpus.json",
    log:
        "results/corpora/{corpus}/fetch.log",
    localrule: True
    conda:
        "../../envs/data.yaml"
    params:
        code=code_sha256("measure/corpus/documents.py"),
        name=lambda w: or_exit(corpus_of_folder, w.corpus)[0],
        row=lambda w: or_exit(corpus_of_folder, w.corpus)[1].model_dump_json(),
        out=subpath(output.description, parent=True),
    message:
        "Gather the documents of {wildcards.corpus}"
    shell:
        "scaleproof stage corpus_fetch {params.name} --out {params.out} > {log} 2>&1"


rule gpt2_tokenizer:
    output:
        "results/corpora/{corpus}/gpt2/tokenizer.json",
    log:
        "results/corpora/{corpus}/gpt2/tokenizer.log",
    localrule: True
    conda:
        "../../envs/data.yaml"
    params:
        code=code_sha256("measure/corpus/remote.py", "measure/corpus/tokenizer.py"),
    message:
        "The tokenizer of GPT-2, for {wildcards.corpus}"
    shell:
        "scaleproof stage gpt2_tokenizer --out {output} > {log} 2>&1"


rule corpus_tokenizer:
    input:
        refuse_impossible_tokenizer,
        documents=ancient("results/corpora/{corpus}/documents.parquet"),
        description="results/corpora/{corpus}/corpus.json",
    output:
        "results/corpora/{corpus}/{tokenizer,bpe-[0-9]+|bytes}/tokenizer.json",
    log:
        "results/corpora/{corpus}/{tokenizer}/tokenizer.log",
    conda:
        "../../envs/data.yaml"
    threads: 2
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        code=code_sha256("measure/corpus/tokenizer.py", "measure/corpus/unchanged.py"),
        corpus=subpath(input.description, parent=True),
    message:
        "Train {wildcards.tokenizer} on {wildcards.corpus}"
    shell:
        "scaleproof stage corpus_tokenizer {wildcards.tokenizer} {params.corpus}" " --out {output} > {log} 2>&1"


rule corpus_tokenise:
    input:
        documents=ancient("results/corpora/{corpus}/documents.parquet"),
        description="results/corpora/{corpus}/corpus.json",
        tokenizer="results/corpora/{corpus}/{tokenizer}/tokenizer.json",
    output:
        train="results/corpora/{corpus}/{tokenizer}/train.bin",
        val="results/corpora/{corpus}/{tokenizer}/val.bin",
        train_labels="results/corpora/{corpus}/{tokenizer}/train.labels",  # empty without labels
        val_labels="results/corpora/{corpus}/{tokenizer}/val.labels",
        description="results/corpora/{corpus}/{tokenizer}/tokens.json",
    log:
        "results/corpora/{corpus}/{tokenizer}/tokenise.log",
    conda:
        "../../envs/data.yaml"
    threads: workflow.resource_settings.cores or 2  # on a cluster: set-threads in its profile
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        code=code_sha256("measure/corpus/tokenise.py", "measure/corpus/unchanged.py"),
        corpus=subpath(input.description, parent=True),
        out=subpath(output.description, parent=True),
    message:
        "Tokenise {wildcards.corpus} with {wildcards.tokenizer}"
    shell:
        "scaleproof stage corpus_tokenise {params.corpus} {input.tokenizer}"
        " --processes {threads} --out {params.out} > {log} 2>&1"


# By code of its own: what makes the tokens is not what checks them. It reads each file once: no work for a queue.
rule corpus_reread:
    input:
        documents=ancient("results/corpora/{corpus}/documents.parquet"),
        corpus="results/corpora/{corpus}/corpus.json",
        tokenizer="results/corpora/{corpus}/{tokenizer}/tokenizer.json",
        tokens=ancient(expand("results/corpora/{{corpus}}/{{tokenizer}}/{split}.bin", split=("train", "val"))),
        description="results/corpora/{corpus}/{tokenizer}/tokens.json",
    output:
        "results/corpora/{corpus}/{tokenizer}/second_reading.json",
    log:
        "results/corpora/{corpus}/{tokenizer}/second_reading.log",
    localrule: True
    conda:
        "../../envs/data.yaml"
    params:
        code=code_sha256("measure/reference/corpus_reader.py", "ground/files.py"),
        folder=subpath(input.description, parent=True),
    message:
        "Hold the tokens of {wildcards.corpus} by {wildcards.tokenizer} against its documents"
    shell:
        "scaleproof stage corpus_reread {params.folder} --out {output} > {log} 2>&1"
