"""Addresses of the net, files, paths, handles, hashtags, languages."""

from reading import reads

from tts_demo.text.spelling import normalise

READ = {
    "IMG_2034.JPG": "i m g underscore two zero three four dot j p g",
    "in 911 calls": "in nine one one calls",
    "a.b@c.io": "a dot b at c dot i o",
    "git checkout -b main": "git checkout dash b main",
    "x.com": "x dot com",
    "lol :D": "lol",
    "love <3": "love",
    "see www.example.com": "see w w w dot example dot com",
    "at https://example.com/docs": "at example dot com slash docs",
    "https://github.com/user/repo.": "github dot com slash user slash repo",
    "visit example.com!": "visit example dot com",
    "john.doe@example.com": "john dot doe at example dot com",
    "info@example.co.uk": "info at example dot co dot u k",
    "a_b-c@example.org": "a underscore b dash c at example dot org",
    "follow @nasa": "follow at nasa",
    "thanks @john_doe!": "thanks at john underscore doe",
    "#ThrowbackThursday": "hashtag throwback thursday",
    "#blessed": "hashtag blessed",
    "issue #42": "issue number forty two",
    "we are #1": "we are number one",
    "open README.md": "open readme dot m d",
    "run setup.py": "run setup dot p y",
    "in config.json": "in config dot j s o n",
    "edit ~/.bashrc": "edit tilde slash dot bashrc",
    "cd /usr/local/bin": "c d slash user slash local slash bin",
    "C:\\Users\\me": "c colon backslash users backslash me",
    "my_variable": "my underscore variable",
    "C++ and C#": "c plus plus and c sharp",
    "Ctrl+C": "control plus c",
    "run with --help": "run with dash dash help",
    "Node.js": "node dot j s",
    "Tom & Jerry @ home": "tom and jerry at home",
    "R&B": "r and b",
    "AT&T": "a t and t",
    "he/she": "he or she",
    "w/o sugar": "without sugar",
    "coffee w/ milk": "coffee with milk",
    "read/write access": "read slash write access",
}

test_read = reads(READ)


def test_a_mail_address_has_a_pause_before_its_host() -> None:
    assert normalise("Write to jane.doe@example.com.") == "Write to jane dot doe, at example dot com."
