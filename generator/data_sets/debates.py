"""The files of UKPConvArg1: one for each side of a debate."""

# Debate -> the names of its sides and the blob ids of their files.
DEBATES: dict[str, tuple[tuple[str, str], ...]] = {
    "ban-plastic-water-bottles": (
        ("no-bad-for-the-economy", "5f0f8f2d40fad127c380021b0dbf52d42f876fd8"),
        ("yes-emergencies-only", "a3998a6a8953ae81e8a6e441ba45ddb2f791ecbd"),
    ),
    "christianity-or-atheism-": (
        ("atheism", "793f4ee3f7f9eb925ace67f094d376e95b4a7390"),
        ("christianity", "42a873b03aa8882925a1150b481a6938680aa2f5"),
    ),
    "evolution-vs-creation": (
        ("creation", "f2971a42c0224ce37ba7380133c07c87b4430391"),
        ("evolution", "161fb6c4e1365968dfffeae592584be289156342"),
    ),
    "firefox-vs-internet-explorer": (
        (
            "it-has-a-cute-logo-oh-and-extensions-err-add-ons",
            "24b400916255ebcb22a869364d3be0f4cc17a631",
        ),
        (
            "there-s-more-browsers-than-the-ie-firefox-is-an-animal",
            "79fa78b7a94a185b32fc08347e0b32b4df70c379",
        ),
    ),
    "gay-marriage-right-or-wrong": (
        ("allowing-gay-marriage-is-right", "dddc2f9a2d3df09fc6291be6ab52cb1bde7cff5d"),
        ("allowing-gay-marriage-is-wrong", "8cb9c4d08dd3c55a64f2e081cf5d51def24ea51d"),
    ),
    "human-growth-and-development-should-parents-use-spanking-as-an-option-to-discipline-": (
        ("no", "42bb00f889d717c9b3398362c18d4e11945dda3b"),
        ("yes", "f245854d4e8a9b6925a404fe3c7b28e24f116d8a"),
    ),
    "if-your-spouse-committed-murder-and-he-or-she-confided-in-you-would-you-turn-them-in-": (
        ("no", "097bafab6e68aee24220e6f403d7aaed3cb16127"),
        ("yes", "69b65b8f25cc4238fc1e861aae4e36a9aa988f98"),
    ),
    "india-has-the-potential-to-lead-the-world-": (
        ("no-against", "a8c4c5e16eabb362d4b3742a2670c664e83be38d"),
        ("yes-for", "a31b6d8f0c7093b37a8d609b106ef7c6a45852e0"),
    ),
    "is-it-better-to-have-a-lousy-father-or-to-be-fatherless-": (
        ("fatherless", "35d875d1d79893a4d78e1123312daf5aa23507a3"),
        ("lousy-father", "c3ad9a47448c202e67596fa1608c8f0f2acf58b0"),
    ),
    "is-porn-wrong-": (
        ("no-is-is-not", "65616faac32e8163f4c6fbf9be0179b23f5eed8e"),
        ("yes-porn-is-wrong", "65390217ce9fa9d3d228b088f65a364aa85aaa15"),
    ),
    "is-the-school-uniform-a-good-or-bad-idea-": (
        ("bad", "33c085bce6696462a84961117c313cb04202e74d"),
        ("good", "d28e2b9098f8d212cd877c49b3deb9820131fe17"),
    ),
    "personal-pursuit-or-advancing-the-common-good-": (
        ("advancing-the-commond-good", "c8c6803d8d2eb68991e5630290b0376723d4a3e8"),
        ("personal-pursuit", "3b4eae2f1b8a8b772cf10b79750ea81ea88c0854"),
    ),
    "pro-choice-vs-pro-life": (
        ("pro-choice", "4e77186a5e163334fcbbe46cd7dd135bac4ae7cc"),
        ("pro-life", "cbac0ccc5bbfab3131796794bd082882d5b733ca"),
    ),
    "should-physical-education-be-mandatory-in-schools-": (
        ("no-", "21bf80b136f9809a57eb2fc0246c74702b67f236"),
        ("yes-", "10fb3badaa8078a3483268ca5aed38e990d1b3dd"),
    ),
    "tv-is-better-than-books": (
        ("books", "1eb3d87bacb6d3be7813c4601d1379fe1eac585d"),
        ("tv", "1e55bb2dfd59af7289788bab06b3987106254fff"),
    ),
    "william-farquhar-ought-to-be-honoured-as-the-rightful-founder-of-singapore": (
        ("no-it-is-raffles-", "6dec1ade87eaf67741fe08588e4109ab495e613c"),
        ("yes-of-course-", "157168a66e808394576a4e184e79192dfe3ff9bb"),
    ),
}
