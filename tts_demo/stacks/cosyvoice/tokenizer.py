"""Text -> ids of the released models: Qwen2's byte-level BPE with the model folder's own vocabulary and merges.

The merges are not Qwen2's: those that join several Chinese characters are left out, so nothing but the folder's files
will do. Behind Qwen2's three special tokens come the released model's own, in this order.
"""

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from ...config import UserError
from ...text.sentences import Label

_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_SOUNDS = (
    "<|endofprompt|> [breath] <strong> </strong> [noise] [laughter] [cough] [clucking] [accent] [quick_breath] "
    "<laughter> </laughter> [hissing] [sigh] [vocalized-noise] [lipsmack] [mn]"
).split()
_VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"  # of the CMU dictionary, each also with stress 0, 1, 2
_CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
_PINYIN = """
    b c ch d f g h j k l m n p q r s sh t w x y z zh
    a ai an ang ao e ei en eng i ian in ing iu o ong ou u uang ue un uo
    ā āi ān āng āo ē ēi ēn ēng ī īn īng ō ōng ōu ū ūn iā iān iāng iāo iē iōng iū uā uāi uān uāng uē uī uō
    á ái án áng áo é éi én éng ér í ín íng ó óng óu ú ún iá ián iáng iáo ié ióng iú uá uái uán uáng ué uí uó ǘ
    ǎ ǎi ǎn ǎng ǎo ě ěi ěn ěng ěr ǐ ǐn ǐng ǒ ǒng ǒu ǔ ǔn iǎ iǎn iǎng iǎo iě iǒng iǔ uǎ uǎi uǎn uǎng uě uǐ uǒ ǚ
    à ài àn àng ào è èi èn èng èr ì ìn ìng ò òng òu ù ùn ià iàn iàng iào iè iòng iù uà uài uàn uàng uè uì uò vè ǜ
"""
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def special_tokens(version: int) -> tuple[str, ...]:
    """In the order of their ids, which begin right behind the vocabulary."""
    if version == 2:
        return (*_QWEN, *_SOUNDS)
    phones = _CONSONANTS.split() + [vowel + stress for vowel in _VOWELS.split() for stress in ("", "0", "1", "2")]
    spoken = sorted(phones) + sorted(_PINYIN.split())
    return (*_QWEN, *_SOUNDS, "<|endofsystem|>", *(f"[{name}]" for name in spoken))


class TextTokenizer:
    def __init__(self, folder: Path, version: int) -> None:
        try:
            self._bpe = Tokenizer(BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        except Exception as error:  # the library raises bare Exceptions
            raise UserError(
                f"The vocabulary in {folder} cannot be read ({str(error)[:100]}): delete the folder and "
                "download it again."
            ) from None
        self._bpe.normalizer = normalizers.NFC()
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        specials = [AddedToken(token, special=True, normalized=False) for token in special_tokens(version)]
        self._bpe.add_special_tokens(specials)

    def encode(self, text: str) -> list[int]:
        return self._bpe.encode(text, add_special_tokens=False).ids

    def encode_labelled(self, text: str) -> tuple[list[int], tuple[Label, ...]]:
        """ids and, for each, the stretch of text it stands for (the same character for each part of a split one)."""
        encoded = self._bpe.encode(text, add_special_tokens=False)
        pieces = [text[a:b] for a, b in encoded.offsets]  # NFC text comes in, so offsets fit
        return encoded.ids, tuple(Label.of(piece.strip() or " ", piece.strip()) for piece in pieces)
