package kubeapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// openAPIv2 serves /openapi/v2, in protobuf only. kubectl up to 1.26 asks it whether the server
// supports dry runs, and refuses to write without it; it explains fields, and validates manifests,
// from the definitions. All versions find in them how kubectl apply merges lists.
func (a *API) openAPIv2(w http.ResponseWriter, _ *http.Request) {
	const contentType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	// The numbers are those of the fields in OpenAPIv2.proto of gnostic.
	var paths []byte
	s := schemas{}
	for _, r := range a.resources {
		gvk := a.define(s, r)
		name := "/api/v1/namespaces/{namespace}/" + r.name + "/{name}"
		parameter := join(protoString(2, "query"), protoString(4, "dryRun"), protoString(6, "string"))
		operation := message(8,
			message(8, message(1, message(2, message(3, parameter)))),
			extension(13, extensionKind, gvk),
		)
		paths = append(paths, message(2, protoString(1, name), message(2, operation))...)
	}
	var definitions []byte
	for _, name := range slices.Sorted(maps.Keys(s)) {
		definitions = append(definitions, namedSchema(1, name, s[name])...)
	}
	document := join(
		protoString(1, "2.0"),
		message(2, protoString(1, "podstead"), protoString(2, a.version)),
		message(8, paths),
		message(9, definitions),
	)
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(document)
}

// namedSchema encodes a schema of schemas as a NamedSchema.
func namedSchema(number protowire.Number, name string, schema map[string]any) []byte {
	return message(number, protoString(1, name), message(2, protoSchema(schema)))
}

// protoSchema encodes a schema of schemas as a Schema of version 2, which refers to others next to
// the description, and not by allOf.
func protoSchema(schema map[string]any) (all []byte) {
	if parts, ok := schema["allOf"].([]any); ok && len(parts) == 1 {
		if part, ok := parts[0].(map[string]string); ok {
			all = append(all, protoString(1, strings.Replace(part["$ref"], referencePrefix, "#/definitions/", 1))...)
		}
	}
	if format, ok := schema["format"].(string); ok {
		all = append(all, protoString(2, format)...)
	}
	if text, ok := schema["description"].(string); ok {
		all = append(all, protoString(4, text)...)
	}
	if required, ok := schema["required"].([]string); ok {
		for _, name := range required {
			all = append(all, protoString(19, name)...)
		}
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		all = append(all, message(21, message(1, protoSchema(values)))...)
	}
	if name, ok := schema["type"].(string); ok {
		all = append(all, message(22, protoString(1, name))...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		all = append(all, message(23, message(1, protoSchema(items)))...)
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		var fields []byte
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			fields = append(fields, namedSchema(1, name, properties[name].(map[string]any))...)
		}
		all = append(all, message(25, fields)...)
	}
	for _, name := range []string{extensionKind, extensionPatchKey, extensionPatchStrategy} {
		if value, ok := schema[name]; ok {
			all = append(all, extension(31, name, value)...)
		}
	}
	return all
}

// extension encodes a vendor extension. Its value is JSON, which is YAML too.
func extension(number protowire.Number, name string, value any) []byte {
	return message(number, protoString(1, name), message(2, protoString(2, string(mustJSON(value)))))
}

// message encodes a field with a message.
func message(number protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), join(fields...))
}

func protoString(number protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
