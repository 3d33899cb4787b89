package change

import (
	"encoding/base64"
	"maps"
	"reflect"
	"unicode/utf8"
)

// A Secret may have values in stringData, as text, and in data, encoded. Clients see all of them
// in data.

// withStringData returns a Secret as clients see it, with the stringData of its document: a patch
// can then remove a value from there.
func withStringData(object, document map[string]any) map[string]any {
	if texts, ok := document["stringData"].(map[string]any); ok {
		object = maps.Clone(object)
		object["stringData"] = texts
	}
	return object
}

// foldStringData moves the values of stringData to data. before are the values that clients see,
// shown is the stringData that the client was shown; what it removed from there is removed.
func foldStringData(object, before, shown map[string]any) map[string]any {
	texts, given := object["stringData"].(map[string]any)
	if !given && (shown == nil || object["stringData"] != nil) {
		return object
	}
	object = maps.Clone(object)
	delete(object, "stringData")
	data, _ := object["data"].(map[string]any)
	data = maps.Clone(data)
	if data == nil {
		data = map[string]any{}
	}
	old, _ := before["data"].(map[string]any)
	for key := range shown {
		if _, kept := texts[key]; !kept && reflect.DeepEqual(data[key], old[key]) {
			delete(data, key)
		}
	}
	for key, value := range texts {
		text, ok := value.(string)
		if !ok {
			object["stringData"] = texts // of the wrong type, which is a fault
			return object
		}
		if shown[key] != value {
			data[key] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	if len(data) > 0 {
		object["data"] = data
	} else {
		delete(object, "data")
	}
	return object
}

// placeValues returns the document of a Secret with the desired values: those that it has as text
// stay text.
func placeValues(document, result, desired map[string]any) map[string]any {
	texts, ok := document["stringData"].(map[string]any)
	values, valid := desired["data"].(map[string]any)
	if !ok || desired["data"] != nil && !valid {
		return result
	}
	result = maps.Clone(result)
	data, _ := result["data"].(map[string]any)
	data = maps.Clone(data)
	text := map[string]any{}
	for key, value := range texts {
		encoded, isText := values[key].(string)
		if !isText {
			continue // removed
		}
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || !utf8.Valid(decoded) {
			continue // it stays in data
		}
		text[key] = value
		if string(decoded) != value {
			text[key] = string(decoded)
		}
		delete(data, key)
	}
	setOrDelete(result, "stringData", text)
	setOrDelete(result, "data", data)
	return result
}

func setOrDelete(object map[string]any, key string, value map[string]any) {
	if len(value) > 0 {
		object[key] = value
	} else {
		delete(object, key)
	}
}
