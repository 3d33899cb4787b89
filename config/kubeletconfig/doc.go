// Package kubeletconfig interprets a KubeletConfiguration (v1beta1), so that a host that ran
// a kubelet can keep its file.
//
// It owns the list of the fields of that document, and which of them are supported.
//
// It reads a decoded document. It never applies anything, and a field that is not set keeps
// podstead's default, not the kubelet's.
package kubeletconfig
