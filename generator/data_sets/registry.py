"""Every data set with its official source, licence, and the hashes of the converted files."""

from dataclasses import dataclass
from pathlib import Path

from generator import InputError
from generator.data_sets.debates import DEBATES

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Source:
    """One official file: `path` in the repository at the pinned commit, checked by `blob`."""

    path: str
    blob: str


@dataclass(frozen=True)
class DataSet:
    """One data set: official files in, three JSON Lines files out.

    `local_files` are the names that a local copy may use instead of the official paths.
    The name is also that of the format, which `convert.FORMATS` reads.
    `division` says how the splits came from the official files. `hashes` are those of the
    converted files: the official files and a local copy both give them.
    """

    name: str
    task: str
    language: str
    summary: str
    repository: str
    commit: str
    sources: tuple[Source, ...]
    local_files: tuple[str, ...]
    division: str
    licence: str
    citation: str
    hashes: dict[str, str]

    def split_ids(self, split: str) -> list[str]:
        """Return the ids of a split's records, in the order of the written file."""
        path = Path(__file__).parent / "splits.txt"
        # One id per line, below a line such as `# finre train`.
        for section in path.read_text(encoding="utf-8").split("# ")[1:]:
            heading, *ids = section.splitlines()
            if heading == f"{self.name} {split}":
                return ids
        raise ValueError(f"{path} has no section {self.name} {split}")


KNOWLEDGENET = DataSet(
    name="knowledgenet",
    task="relation_extraction",
    language="en",
    summary="passages of encyclopedias and the web, 15 predicates, each passage annotated for some",
    repository="diffbot/knowledge-net",
    commit="abc4ed3ebb88bfde8c1f02709371324ae6347ba0",
    sources=(Source("dataset/train.json", "72a406a1d661cb5fc9580b6950c12b13b9ec50de"),),
    local_files=("train.json", "dev.json", "test.json"),
    division="train is folds 1 to 3, dev and test are documents of fold 4",
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Filipe Mesquita, Matteo Cannaviccio, Jordan Schmidek, Paramita Mirza and Denilson Barbosa:"
        " KnowledgeNet: A Benchmark Dataset for Knowledge Base Population. EMNLP 2019."
    ),
    hashes={
        "train": "sha256:c2d1498d6bb16877604fe7cec04f5981c8b0d4d5b124de22c881357cc4a6435c",
        "dev": "sha256:b59bef6532cbd41ac43b96595b8a5adf51d1a55dd73138a74113f38e9ca82103",
        "test": "sha256:b69c61d5b3b4d494cc3a6a4121cf0b86de9182394490d833cd55b86147cde7f3",
    },
)

FINRE = DataSet(
    name="finre",
    task="relation_extraction",
    language="zh",
    summary="sentences of financial news, 43 predicates between companies",
    repository="thunlp/Chinese_NRE",
    commit="2cd47e6dc1b95e8ca3e93b5b8567666c37c5d654",
    sources=(
        Source("data/FinRE/train.txt", "a5943b97efbaf2762609f0848116c29256fb2494"),
        Source("data/FinRE/valid.txt", "3d4d0f9fc701fdd68913f9f529c0309cbb9e34bc"),
        Source("data/FinRE/test.txt", "005a5be8e10ea0f2f8e7a7bfdd99e637ad4bf0ff"),
    ),
    local_files=("train.txt", "valid.txt", "test.txt"),
    division=(
        "the official ones, without sentences that occur again in a later one; test is a part of"
        " the official one"
    ),
    licence="MIT, Copyright (c) 2019 THUNLP",
    citation=(
        "Ziran Li, Ning Ding, Zhiyuan Liu, Hai-Tao Zheng and Ying Shen: Chinese Relation Extraction"
        " with Multi-Grained Information and External Linguistic Knowledge. ACL 2019."
    ),
    hashes={
        "train": "sha256:8e87ed7e5d3d0349ad01b83b3f8b338e87b1a6d8659ef3a8c834631f8e4bb20a",
        "dev": "sha256:a4defcfd2f20cfd4b8682793934f7e7b93a5903e562e72760a2893ac8b467149",
        "test": "sha256:3242bc2db6a6853568fa1f719c2246668e7a1aace3ec92db0eef4f33a1e5a96a",
    },
)

SQUAD = DataSet(
    name="squad",
    task="reading_comprehension",
    language="en",
    summary="SQuAD 1.1: questions on passages of Wikipedia, every answer a span of its passage",
    repository="rajpurkar/SQuAD-explorer",
    commit="eee5fdbf62f8613a7812b03419e6b29617b74fd1",
    sources=(Source("dataset/dev-v1.1.json", "e9a3f913ad1468ebe105b891334ca7b0bc0e2510"),),
    local_files=("train.json", "dev.json", "test.json"),
    division="all three are articles of the official development file",
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Pranav Rajpurkar, Jian Zhang, Konstantin Lopyrev and Percy Liang: SQuAD: 100,000+"
        " Questions for Machine Comprehension of Text. EMNLP 2016."
    ),
    hashes={
        "train": "sha256:a3bb6d72cc84cae716f996b32e097c825962ff7d7db35fe3c811f93e18447e38",
        "dev": "sha256:7af12ebd1954484ed483891b2b6cb3ca8879c9f786ffe78ad3f3e1bd8abb9953",
        "test": "sha256:5870bf54bacc7cf6365184b5ce7eeeb6075256c2e418aa1ad5cf128f1fe91cd2",
    },
)

CMRC2018 = DataSet(
    name="cmrc2018",
    task="reading_comprehension",
    language="zh",
    summary="CMRC 2018: questions on passages of Wikipedia (simplified Chinese)",
    repository="ymcui/cmrc2018",
    commit="c0eb1b6ba219847457e6af3180da722bbeb656af",
    sources=(
        Source("squad-style-data/cmrc2018_dev.json", "94c1f2df14a669b0b7b836665d6339a34df8aa97"),
        Source("squad-style-data/cmrc2018_trial.json", "020e3559e914d23404ffc5bf9411ee52a9c38451"),
    ),
    local_files=("train.json", "dev.json", "test.json"),
    division=(
        "dev and test are passages of the official development file, train is the trial file and"
        " other passages of the development file"
    ),
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Yiming Cui, Ting Liu, Wanxiang Che, Li Xiao, Zhipeng Chen, Wentao Ma, Shijin Wang and"
        " Guoping Hu: A Span-Extraction Dataset for Chinese Machine Reading Comprehension."
        " EMNLP-IJCNLP 2019."
    ),
    hashes={
        "train": "sha256:22d92643a8571c91128d87e85bb6695c35fe767e01a6f1a18aedc8a3714d5f79",
        "dev": "sha256:35a78a169c1fa1a81399a5f71a86032a7e80c8cacf42c5ead8b68e511c3d18c3",
        "test": "sha256:c12d03935b2a7d4a2220b6cfbfc20537c5afa20180e3c1062639f2e868c8fcb7",
    },
)

DRCD = DataSet(
    name="drcd",
    task="reading_comprehension",
    language="zh",
    summary="DRCD: questions on passages of Wikipedia (traditional Chinese)",
    repository="DRCKnowledgeTeam/DRCD",
    commit="b944790de5af02c5fbb7cd9cb1473d27d169eebf",
    sources=(
        Source("DRCD_dev.json", "daa42e47130e8d5b907b87e75cecc8fb807fd4f5"),
        Source("DRCD_test.json", "341eda001e27a375f14e6b40976b2492b925eae2"),
    ),
    local_files=("train.json", "dev.json", "test.json"),
    division=(
        "all three are articles of the official development and test files, which share articles"
    ),
    licence="CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/",
    citation=(
        "Chih Chieh Shao, Trois Liu, Yuting Lai, Yiying Tseng and Sam Tsai: DRCD: a Chinese Machine"
        " Reading Comprehension Dataset. arXiv:1806.00920, 2018."
    ),
    hashes={
        "train": "sha256:97cb4bd9e1b6112a8f9b4e9a29d0965a655d8a2c62526793c31a67b9bba983e0",
        "dev": "sha256:5030ec3cbe0f287785195da91d1a3cf2c2df3b675af0669e8b88a9ba955ea7ae",
        "test": "sha256:f92b1834feafa5c6a4c98f2138d986737e385d84a0a05323c32519d3b44595bb",
    },
)

FEWFC = DataSet(
    name="fewfc",
    task="event_extraction",
    language="zh",
    summary="sentences of financial news, 10 types of events, 18 roles",
    repository="TimeBurningFish/FewFC",
    commit="ec6cac90238c04b45d4512a695ee6375fc72af2f",
    sources=(
        Source("rearranged/train_base.json", "75c0f812708b4cf21ce2ef2b94843c79afecfb3f"),
        Source("rearranged/test_base.json", "142f4db55861ca647b6c5fcdd06fe73a35ccd4fe"),
        Source("rearranged/train_trans.json", "b8d5f66d4a5102afa86b685de226f288111d352d"),
        Source("rearranged/test_trans.json", "c56b5b846f9180b594191812b6c7e50ed16d55c4"),
    ),
    local_files=("train.json", "dev.json", "test.json"),
    division=(
        "all official files together, divided as in CasEE (github.com/JiaweiSheng/CasEE), without"
        " sentences that occur again in a later split; test is a part of CasEE's"
    ),
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Yang Zhou, Yubo Chen, Jun Zhao, Yin Wu, Jiexin Xu and Jinlong Li: What the Role is vs."
        " What Plays the Role: Semi-Supervised Event Argument Extraction via Dual Question"
        " Answering. AAAI 2021."
    ),
    hashes={
        "train": "sha256:9a4a88d693e8cbb33331d355adefb89ec658c974a072385c2842187f107e15eb",
        "dev": "sha256:c54a9198caf944934813f531230b9583e5abf752039475a7d7e4761d83a0742d",
        "test": "sha256:1864a9e13069b10841832cba2da8f2fd4753e9cd7469514fc852179062d15058",
    },
)

PHEE = DataSet(
    name="phee",
    task="event_extraction",
    language="en",
    summary="sentences of medical case reports, 2 types of events, the 3 main roles",
    repository="ZhaoyueSun/PHEE",
    commit="41489b08675d0b63a1eb7cd4f2d1946952833eb1",
    sources=(
        Source("data/json/train.json", "3102e55e522f6a13dfc80b1a7c468c3f78ad2138"),
        Source("data/json/dev.json", "93d84c1c7379d41f5befbd20c6f47a4e632e92e9"),
        Source("data/json/test.json", "1154fbb470449da47ede81ab69b48576df8cca90"),
    ),
    local_files=("train.json", "dev.json", "test.json"),
    division="the official ones; test is a part of the official one",
    licence="MIT, Copyright (c) 2025 Sun Zhaoyue",
    citation=(
        "Zhaoyue Sun, Jiazheng Li, Gabriele Pergola, Byron Wallace, Bino John, Nigel Greene, Joseph"
        " Kim and Yulan He: PHEE: A Dataset for Pharmacovigilance Event Extraction from Text."
        " EMNLP 2022."
    ),
    hashes={
        "train": "sha256:bf1cdccd7eeb1dd429106cbf171ff6c0f376a06dd44534021470b2d9bbd8331b",
        "dev": "sha256:5d379cf0851877ff904bd0c4f2555b9662a2135292c336e10e6dfab81e117c5d",
        "test": "sha256:fbf18afdf2f06d3dfeca795c86f715d86393ce856598ccfc159a80597d43331f",
    },
)

E2E = DataSet(
    name="e2e",
    task="seq2seq",
    language="en",
    summary="meaning representations of restaurants, several sentences written for each",
    repository="tuetschek/e2e-dataset",
    commit="ab0d967dd5729ce455ef14ba9ffafc456a335264",
    sources=(
        Source("trainset.csv", "fa3a5e1124d2aa0d768881e38f8ee73e63d5880d"),
        Source("devset.csv", "c45950a0771c769d787a33fdf56439cb890005d7"),
        Source("testset_w_refs.csv", "86733864c96dc18cbaa5f18042356296ef679302"),
    ),
    local_files=("trainset.csv", "devset.csv", "testset_w_refs.csv"),
    division="the official ones; train and test are parts of the official ones, dev is whole",
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Jekaterina Novikova, Ondřej Dušek and Verena Rieser: The E2E Dataset: New Challenges for"
        " End-to-End Generation. SIGDIAL 2017."
    ),
    hashes={
        "train": "sha256:f05327360f899fa05ac943b0c12a1f183600c2e0b4f7db3939ae7e0bd10dd573",
        "dev": "sha256:1baefca7414d3b2eca33e46f49398ae5236cf15d3456d77888fe9702553f5779",
        "test": "sha256:2a2aec5a749e428bcfc52868de3f7f4188bbb39144f17c54c434e261b084d745",
    },
)

CSL_TITLE = DataSet(
    name="csl_title",
    task="seq2seq",
    language="zh",
    summary="CSL: titles for the abstracts of scientific papers",
    repository="ydli-ai/CSL",
    commit="0f1ac0626d584cd3c72f8be26d329eb4f967cfd0",
    sources=(
        Source("benchmark/ts/dev.tsv", "f1f82ed9a577ab9e471bc94c1f52f84868e7d513"),
        Source("benchmark/ts/test.tsv", "bb2101d766358b532f81b10876ed51d714144fbc"),
    ),
    local_files=("train.tsv", "dev.tsv", "test.tsv"),
    division=(
        "train is the first 900 lines of the official development file, dev is its last 100, test"
        " is a part of the official one"
    ),
    licence="Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0",
    citation=(
        "Yudong Li, Yuqing Zhang, Zhe Zhao, Linlin Shen, Weijie Liu, Weiquan Mao and Hui Zhang:"
        " CSL: A Large-scale Chinese Scientific Literature Dataset. COLING 2022."
    ),
    hashes={
        "train": "sha256:8ca86850dff293a94997da3a2608c41b90a1c306b1733e16c98066d19af0a0d6",
        "dev": "sha256:7cfeb608a5a93dbb72663d97f13640b8d08aa1670b089af23d8d139f81cee160",
        "test": "sha256:8aaa794b572c0503bb66532c1d56dba67769146677b90dfbfa8e07ae04ad69c5",
    },
)

SELQA = DataSet(
    name="selqa",
    task="text_classification",
    language="en",
    summary="questions with candidate sentences of Wikipedia, of which some answer them",
    repository="emorynlp/selqa",
    commit="fef3d6ac6944e2d4237165d90e5f859c71676bdd",
    sources=(
        Source("ass/selqa-ass-dev.tsv", "9d6d0277ee311c9eeb64f9cc6fd776e5c9c3b792"),
        Source("ass/selqa-ass-test.tsv", "de2ca172ea325c3c5eb42b5e97eb44b64c184585"),
    ),
    local_files=("train.tsv", "dev.tsv", "test.tsv"),
    division="all three are articles of the official development and test files",
    licence="Apache-2.0, Copyright 2016, Emory University",
    citation=(
        "Tomasz Jurczyk, Michael Zhai and Jinho D. Choi: SelQA: A New Benchmark for Selection-based"
        " Question Answering. ICTAI 2016."
    ),
    hashes={
        "train": "sha256:7c7fc304d3b74bbb7e67f9f4b88d6014a5f349b0d1e434ed9d17c8074d17a46a",
        "dev": "sha256:064193069e1f47f51722eb18a12f108193566f18dd35d8afba0cda2b461fd3ca",
        "test": "sha256:e59a2e35a3653f7834c2f33e973df00f2d61ce92cb4aeac5b7dc0b3b208c8de6",
    },
)

WNUT17 = DataSet(
    name="wnut17",
    task="named_entity_recognition",
    language="en",
    summary="WNUT 2017: posts and comments with rare and new names, 6 types",
    repository="leondz/emerging_entities_17",
    commit="e52a2d2a71ac1a051ca2d532eef28653c5c02603",
    sources=(
        Source("wnut17train.conll", "f492698d4776475fd62851998b7b3623c416c92f"),
        Source("emerging.dev.conll", "128e929f695c9f7499a8e652ee46cd505848e34e"),
        Source("emerging.test.annotated", "a599ac827c810886f53978afca5596a9ab1ef4a6"),
    ),
    local_files=("train.conll", "dev.conll", "test.conll"),
    division="the official ones, each sentence once; test is two thirds of the official one",
    licence="CC BY 4.0, https://creativecommons.org/licenses/by/4.0/",
    citation=(
        "Leon Derczynski, Eric Nichols, Marieke van Erp and Nut Limsopatham: Results of the"
        " WNUT2017 Shared Task on Novel and Emerging Entity Recognition. W-NUT 2017."
    ),
    hashes={
        "train": "sha256:f116d5148fd083c031df42649fd044b0f162e722c28ed3324381a35bf236a14c",
        "dev": "sha256:51dce60b81876e185e1536cbbd76d5914d5a73be78fcda14145e3cd9a0b42c10",
        "test": "sha256:e9a10d86f1e624e2b765a92dd8e21c87b1699fdec7f66c73f94bc66f43341539",
    },
)

WEIBO = DataSet(
    name="weibo",
    task="named_entity_recognition",
    language="zh",
    summary="messages of Weibo, names and nouns of people, places and organisations, 8 types",
    repository="hltcoe/golden-horse",
    commit="7a73c08e45ed94312af4ef2d97cc35a47d029e99",
    sources=(
        Source("data/weiboNER_2nd_conll.train", "fa1ce24ee89deb32f7618339097fc5fac4733a7b"),
        Source("data/weiboNER_2nd_conll.dev", "5cd43b363dc0b724bf1a2728b422027c459bc2f5"),
        Source("data/weiboNER_2nd_conll.test", "d66d5f800007899e2a00e81b6dd2073774372e46"),
    ),
    local_files=("train.conll", "dev.conll", "test.conll"),
    division=(
        "the official ones of the second edition, without messages that occur again in a later"
        " one; test is two thirds of the official one"
    ),
    licence=(
        "annotations CC BY-SA 3.0, https://creativecommons.org/licenses/by-sa/3.0/; the messages"
        " follow the terms of Weibo"
    ),
    citation=(
        "Nanyun Peng and Mark Dredze: Named Entity Recognition for Chinese Social Media with"
        " Jointly Trained Embeddings. EMNLP 2015."
    ),
    hashes={
        "train": "sha256:e6d03fdab4fdc29e004d7432ff10a6745e32bdb9c2281a3aa7b26ab0cb205dd2",
        "dev": "sha256:0c8df4229004cea9bb4137bc6e6240841c683fdb3bfd9e98d2cca7809efc5e90",
        "test": "sha256:86c7365e00cb1f18d1d927c6f3373f9ae6e0dc5488e4c476ce5b6b11361f494c",
    },
)

EMOBANK = DataSet(
    name="emobank",
    task="text_classification",
    language="en",
    summary="sentences of many genres, each with its mean valence, arousal and dominance, 1 to 5",
    repository="JULIELab/EmoBank",
    commit="248ce2a43e165a66d31aeaed83cff9641d6654e0",
    sources=(Source("corpus/emobank.csv", "e810731bef6967c14daefb84bd904c76628442d7"),),
    local_files=("emobank.csv",),
    division=(
        "the official ones, without sentences of train and dev that occur again in a later one"
    ),
    licence="CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/",
    citation=(
        "Sven Buechel and Udo Hahn: EmoBank: Studying the Impact of Annotation Perspective and"
        " Representation Format on Dimensional Emotion Analysis. EACL 2017."
    ),
    hashes={
        "train": "sha256:f03f7daa00bff14eddd1e719506b5274c9d36671d31f4a901effa5cab953e27f",
        "dev": "sha256:f99c372d07daf81bd4ab340fc438aa8746770d0867b1d94e113ed44b54b32021",
        "test": "sha256:de135f3cd7c03578818a8d11aeecb68be4c6d291e4e14b6dd1e0fc544eedd6a3",
    },
)

REDOCRED = DataSet(
    name="redocred",
    task="relation_extraction",
    language="en",
    summary="beginnings of articles of Wikipedia, 96 predicates, relations across the document",
    repository="tonytan48/Re-DocRED",
    commit="ccfb54f5ddf5836027c87badda10f6dfc56efaac",
    sources=(
        Source("data/dev_revised.json", "56c7700aaa9a6f9b1c99f0cdf0b576890fddcadc"),
        Source("data/test_revised.json", "f59191a3f954ee623ed67cb5740a6e1aedd13a0b"),
    ),
    local_files=("dev_revised.json", "test_revised.json"),
    division=(
        "train is the official development file without every tenth document, which are dev; test"
        " is the official test file"
    ),
    licence="MIT, Copyright (c) 2023 tonytan48",
    citation=(
        "Qingyu Tan, Lu Xu, Lidong Bing, Hwee Tou Ng and Sharifah Mahani Aljunied: Revisiting"
        " DocRED - Addressing the False Negative Problem in Relation Extraction. EMNLP 2022."
    ),
    hashes={
        "train": "sha256:6de339b586710d0cd1fcae503b93d50e6994e07a489ba5eecc49a1b6971a22d1",
        "dev": "sha256:465c956633fcd45e246f29ecf7fd0f846e15fa547f471931e7e7fa18db9270bb",
        "test": "sha256:cddbcd933c3052349c67e4e8d921f9733f59541858bbb718ac175a3d58e953ed",
    },
)

SEMEVAL2010 = DataSet(
    name="semeval2010",
    task="text_classification",
    language="en",
    summary="SemEval-2010 task 8: sentences with two marked nouns, which have one of 9 relations",
    # A copy of the whole release, with its licence: the task's own pages are gone.
    repository="sahitya0000/Relation-Classification",
    commit="8eebbf2727013aaaa5ecd18b1f4732bd848e1e1c",
    sources=(
        Source(
            "corpus/SemEval2010_task8_training/TRAIN_FILE.TXT",
            "0797b23e4907e12e26739a79a454dfae9bb71c13",
        ),
        Source(
            "corpus/SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT",
            "91882ebf15ef836054b91b4bf3a04d732fda8fba",
        ),
    ),
    local_files=("TRAIN_FILE.TXT", "TEST_FILE_FULL.TXT"),
    division=(
        "train is the official training file without every tenth sentence, which are dev; test is"
        " the official test file"
    ),
    licence="CC BY 3.0, https://creativecommons.org/licenses/by/3.0/",
    citation=(
        "Iris Hendrickx, Su Nam Kim, Zornitsa Kozareva, Preslav Nakov, Diarmuid Ó Séaghdha,"
        " Sebastian Padó, Marco Pennacchiotti, Lorenza Romano and Stan Szpakowicz: SemEval-2010"
        " Task 8: Multi-Way Classification of Semantic Relations between Pairs of Nominals."
        " SemEval 2010."
    ),
    hashes={
        "train": "sha256:40fbb246ffdcc305cec35759dc8701c183fdbd543e869dc2d936d3eaa1730a3f",
        "dev": "sha256:efadc28d4e0c9431d24551ca8f40ca5661cca7d0e40f7b13f3d957498534e492",
        "test": "sha256:a755ff7282ac5abbd78793fa85bb8f7b4194f6c69fc7b448b913638193e3347a",
    },
)

# File -> blob id.
ARGUMENT_FILES = {
    f"{debate}_{side}.csv": blob for debate, sides in DEBATES.items() for side, blob in sides
}
UKPCONVARG = DataSet(
    name="ukpconvarg",
    task="text_classification",
    language="en",
    summary=(
        "UKPConvArg1-Strict: pairs of arguments for the same side of a debate on the web, of which"
        " one convinced more readers"
    ),
    repository="UKPLab/acl2016-convincing-arguments",
    commit="ca9d24e41b8805ff2e1d3585d552b49bb64a65f7",
    sources=tuple(
        Source(f"data/UKPConvArg1Strict-CSV/{name}", blob) for name, blob in ARGUMENT_FILES.items()
    ),
    local_files=tuple(ARGUMENT_FILES),
    division=(
        "by debate, so that no argument is in two: of the 16 debates in alphabetical order, numbers"
        " 1, 5, 9 and 13 are test, 3 and 11 are dev, and the other ten are train"
    ),
    licence="CC BY 4.0, https://creativecommons.org/licenses/by/4.0/",
    citation=(
        "Ivan Habernal and Iryna Gurevych: Which argument is more convincing? Analyzing and"
        " predicting convincingness of Web arguments using bidirectional LSTM. ACL 2016."
    ),
    hashes={
        "train": "sha256:9d6c4b0ff75dd526bdfb7e14e3ef52362fe32a2566aee4a5fbbe411e17ba9112",
        "dev": "sha256:efa1279ad8c0ad9bfd04affd090d9a53ac8773e9316effb8c01886c85485904d",
        "test": "sha256:b65814ee8ab20c9935bc9a1d6c3082ed05080237668f0cb75f81e9290964b856",
    },
)

DATA_SETS = {
    data_set.name: data_set
    for data_set in (
        KNOWLEDGENET,
        FINRE,
        SQUAD,
        CMRC2018,
        DRCD,
        FEWFC,
        PHEE,
        E2E,
        CSL_TITLE,
        SELQA,
        WNUT17,
        WEIBO,
        EMOBANK,
        REDOCRED,
        SEMEVAL2010,
        UKPCONVARG,
    )
}


def find_data_set(name: str) -> DataSet:
    """Return the data set of that name.

    Raises:
        InputError: there is none.
    """
    if name not in DATA_SETS:
        raise InputError(f"there is no data set {name!r}: the names are {', '.join(DATA_SETS)}.")
    return DATA_SETS[name]
