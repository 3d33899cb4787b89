package cluster

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

// statusPatch returns the JSON merge patch from one status to another, for the
// object with that UID and not for a successor of the same name; nil if they are
// equal.
func statusPatch(uid types.UID, have, want any) ([]byte, error) {
	before, err := json.Marshal(have)
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, before)
	if err != nil || bytes.Equal(patch, []byte("{}")) {
		return nil, err
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": json.RawMessage(patch)})
}
