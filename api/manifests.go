package api

import "time"

// ManifestSource is the state of one source of manifests.
type ManifestSource struct {
	// Source is file, http, oci or api.
	Source string `json:"source"`
	// Location is the directory, file or URL that is read, or the artifacts.
	Location string `json:"location"`
	// Delivered is true after the source was read in full since the daemon started. Until
	// then cleanup is suspended, and what cannot be read comes from the checkpoint.
	Delivered bool `json:"delivered"`
	// Incomplete are the manifests because of which it was not read in full: they are
	// invalid and have no last good revision.
	Incomplete []string `json:"incomplete,omitempty"`
	// Ignored are the names in the directory that are not read: subdirectories and files
	// that do not end in .yaml, .yml or .json, without hidden files.
	Ignored []string `json:"ignored,omitempty"`
	// Time is the time of the last full read; zero before the first one.
	Time time.Time `json:"time,omitzero"`
	// Fault is set while the source as a whole cannot be read. A Warning does not keep
	// anything from taking effect.
	Fault   string         `json:"fault,omitempty"`
	Warning string         `json:"warning,omitempty"`
	Units   []ManifestUnit `json:"units"`
}

// Faults returns the faults of the source and of each of its manifests.
func (s *ManifestSource) Faults() (all []string) {
	if s.Fault != "" {
		all = append(all, s.Fault)
	}
	for _, u := range s.Units {
		all = append(all, u.Faults...)
	}
	return all
}

// Warnings returns the warnings of the source and of each of its manifests.
func (s *ManifestSource) Warnings() (all []string) {
	if s.Warning != "" {
		all = append(all, s.Warning)
	}
	for _, u := range s.Units {
		all = append(all, u.Warnings...)
	}
	return all
}

// ManifestUnit is one file, the body of a URL, or an OCI artifact.
type ManifestUnit struct {
	Name string `json:"name"`
	// Digest is the SHA-256 sum of the accepted content, empty if none was accepted or if
	// it contains a Secret.
	Digest string `json:"digest,omitempty"`
	// Revision is the digest of the OCI artifact in effect, empty for other sources and if
	// Digest is.
	Revision string `json:"revision,omitempty"`
	// Pods are the pods of the accepted revision, as namespace/name.
	Pods []string `json:"pods,omitempty"`
	// Restored is true if an older revision is in effect, because the newest content has
	// faults.
	Restored bool `json:"restored,omitempty"`
	// Faults keep the newest content from taking effect, Warnings do not.
	Faults   []string `json:"faults,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// ManifestObject is an object that manifests declare in addition to pods, without its content.
type ManifestObject struct {
	Kind string `json:"kind"`
	// Namespace is empty for cluster-scoped objects, such as classes.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Source is file or http, Manifest the path or URL of the manifest.
	Source   string `json:"source"`
	Manifest string `json:"manifest"`
	// Revision changes with the content, and does not reveal it.
	Revision string `json:"revision"`
	// Keys are the keys in the data of a ConfigMap or Secret. Those of a Secret are only for callers that
	// may write.
	Keys []string `json:"keys,omitempty"`
	// Type is the type of a Secret.
	Type string `json:"type,omitempty"`
}
