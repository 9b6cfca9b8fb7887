package ingest

import (
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// Limits of custom properties and of names, in characters.
const (
	maxProps     = 30
	maxPropKey   = 300
	maxPropValue = 2000
	maxName      = 120
	maxEventID   = 256 // bytes
)

// appendProps appends the pairs of v, an object. Lists, objects and blank values are left out, other values become text. problem
// says what is wrong with a pair, and is empty when nothing is.
func appendProps(list []schema.Prop, v *fastjson.Value) (_ []schema.Prop, problem string) {
	object, err := v.Object()
	if err != nil {
		return list, "must be an object"
	}
	object.Visit(func(key []byte, value *fastjson.Value) {
		s, ok := scalarText(value)
		if !ok || s == "" || len(key) == 0 || problem != "" {
			return
		}
		p := schema.Prop{Key: cleanText(text(key), len(key)), Value: cleanText(s, 4*maxPropValue)}
		switch {
		case longerThan(p.Key, maxPropKey):
			problem = "keys must not be longer than 300 characters"
		case longerThan(s, maxPropValue):
			problem = "values must not be longer than 2000 characters"
		case len(list) == maxProps && !hasProp(list, p.Key):
			problem = "must not have more than 30 pairs"
		default:
			list = setProp(list, p)
		}
	})
	return list, problem
}

// setProp adds p; of a key sent twice the last value counts.
func setProp(list []schema.Prop, p schema.Prop) []schema.Prop {
	for i := range list {
		if list[i].Key == p.Key {
			list[i] = p
			return list
		}
	}
	return append(list, p)
}

func hasProp(list []schema.Prop, key string) bool {
	for i := range list {
		if list[i].Key == key {
			return true
		}
	}
	return false
}

// scalarText is the text of a string, number or boolean as it was sent.
func scalarText(v *fastjson.Value) (s string, ok bool) {
	switch v.Type() {
	case fastjson.TypeString:
		return text(v.GetStringBytes()), true
	case fastjson.TypeNumber:
		return numberText(v), true
	case fastjson.TypeTrue:
		return "true", true
	case fastjson.TypeFalse:
		return "false", true
	}
	return "", false
}

// numberText is a number in the sender's own digits, which a float would round beyond 2^53.
func numberText(v *fastjson.Value) string {
	return string(v.MarshalTo(make([]byte, 0, 24)))
}

// longerThan counts characters only when the bytes leave it open.
func longerThan(s string, characters int) bool {
	return len(s) > characters && utf8.RuneCountInString(s) > characters
}

// stringOf reads a JSON string; absent and null are empty.
func stringOf(v *fastjson.Value) (s string, ok bool) {
	if v == nil || v.Type() == fastjson.TypeNull {
		return "", true
	}
	if v.Type() != fastjson.TypeString {
		return "", false
	}
	return text(v.GetStringBytes()), true
}
