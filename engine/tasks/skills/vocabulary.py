"""The English words of the tasks."""

from __future__ import annotations

_WORD_LIST = """
    able acid actor adult agent air album alarm amber angle animal answer ant apple april apron arch arm army arrow
    art aunt autumn baby back bag baker ball banana band bank barn basket bat beach bean bear bed bee bell belt
    bench berry bike bird black blanket blue boat body bone book boot bottle bowl box boy branch brave bread brick
    bridge bright brother brown brush bucket bus butter button cabin cable cake calm camel camera camp candle car
    card carpet carrot castle cat chain chair chalk cheese cherry chess chicken child circle city clay clean clear
    cliff clock cloud clown coach coast coat coffee coin cold color comet copper corn cotton couch cousin cow crab
    cream crown cup curtain dance dark day deer desert desk diamond dinner doctor dog doll door dragon dream dress
    drum duck eagle ear earth east egg engine evening eye face family farm father feather fence fern field fig film
    finger fire fish flag flame flower flute fog forest fork fox friend frog fruit game garden garlic gate ghost
    giant gift girl glass glove goat gold goose grain grape grass green guitar hair hall hammer hand harbor hat
    heart hill honey horse hotel house ice ink iron island jacket jam jar jewel juice jungle kettle key king kite
    kitchen knee knife ladder lake lamp land leaf lemon letter light lion lizard lock mango map maple market meadow
    melon milk mirror money monkey moon morning mother mountain mouse music nail needle nest night north nose nurse
    oak ocean olive onion orange orbit otter owl paint palace paper park peach pear pencil people pepper piano
    picture pig pilot pizza planet plate plum pocket poem pond potato prince purple queen quiet rabbit radio rain
    ribbon ring river road robot rocket roof rope rose sail salt sand school sea shadow sheep ship shirt shoe silver
    sister sky smile snow soap soup spider spoon spring star stone storm street sugar summer sun table tea tiger
    tower train tree tulip turtle uncle valley violin wagon water whale wheel window winter wolf wood yellow zebra
"""

WORDS: tuple[str, ...] = tuple(_WORD_LIST.split())
"""Common English words of three to eight letters, in lower case."""

PEOPLE = ("Tom", "Sam", "Ben", "Leo", "Max", "Anna", "Mia", "Eva", "Zoe", "Lily")
