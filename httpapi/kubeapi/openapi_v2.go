package kubeapi

import (
	"encoding/json"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"
)

// openAPIv2 serves /openapi/v2 for kubectl up to 1.26, which asks it, in protobuf only, whether the
// server supports dry runs, and refuses to write without it. It has no definitions of types: with
// none of a type kubectl leaves validation to the server.
func (a *API) openAPIv2(w http.ResponseWriter, _ *http.Request) {
	const contentType = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	// The numbers are those of the fields in OpenAPIv2.proto of gnostic.
	var paths []byte
	for _, r := range a.resources {
		gvk, err := json.Marshal(map[string]string{"group": r.group, "version": r.cache.kind.Version, "kind": r.kind})
		if err != nil {
			continue // strings only
		}
		name := "/api/v1/namespaces/{namespace}/" + r.name + "/{name}"
		parameter := join(protoString(2, "query"), protoString(4, "dryRun"), protoString(6, "string"))
		operation := message(8,
			message(8, message(1, message(2, message(3, parameter)))),
			message(13, protoString(1, "x-kubernetes-group-version-kind"), message(2, protoString(2, string(gvk)))),
		)
		paths = append(paths, message(2, protoString(1, name), message(2, operation))...)
	}
	document := join(
		protoString(1, "2.0"),
		message(2, protoString(1, "podstead"), protoString(2, a.version)),
		message(8, paths),
		message(9),
	)
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(document)
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
