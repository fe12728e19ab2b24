#!/bin/sh
# Three lamps, each with a switch. Requests have the keys in the order that the protocol gives them, without spaces, so
# sed can read them; what it cannot read is answered by a word about it. Nothing of a request is ever run.

red=off green=off blue=off

say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }

lamps() { printf '{"text":"red is %s, green is %s, blue is %s"}' "$red" "$green" "$blue"; }

flip() {
    case $1 in
        red) if [ $red = on ]; then red=off; else red=on; fi ;;
        green) if [ $green = on ]; then green=off; else green=on; fi ;;
        blue) if [ $blue = on ]; then blue=off; else blue=on; fi ;;
    esac
}

tool='{"name":"flip","description":"Flips the switch of a lamp.","parameters":{"type":"object","properties":{"lamp":{"type":"string","enum":["red","green","blue"]}},"required":["lamp"]}}'

while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/^{"jsonrpc":"2.0","id":\([0-9]*\),.*/\1/p')
    case $line in
        '{"jsonrpc":"2.0","id":'"$id"',"method":"reset",'*)
            want=$(printf '%s' "$line" | sed -n 's/.*"config":{"want":"\([a-z ]*\)"}.*/\1/p')
            red=off green=off blue=off
            say "{\"protocol\":1,\"observation\":$(lamps),\"tools\":[$tool]}" ;;
        '{"jsonrpc":"2.0","id":'"$id"',"method":"step",'*)
            # One call a line, then its lamp, if it is one.
            for lamp in $(printf '%s' "$line" | sed 's/{"id":"/\
&/g' | sed -n 's/.*"name":"flip","arguments":{"lamp":"\([a-z]*\)"}}.*/\1/p'); do
                flip "$lamp"
            done
            say "{\"observation\":$(lamps)}" ;;
        '{"jsonrpc":"2.0","id":'"$id"',"method":"grade",'*)
            if [ "$want" = "$red $green $blue" ]; then score=1; else score=0; fi
            say "{\"score\":$score,\"checks\":[{\"name\":\"lamps\",\"score\":$score,\"message\":\"$red $green $blue\"}]}" ;;
        *) say '{}' ;;
    esac
done
