package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// translateIdentity lets wrangler's election run under a pod's name where the
// process cannot be given a hostname of its own (macOS; Linux without
// CAP_SYS_ADMIN): in Leases on their way to the API server the host's name is
// replaced by the pod's, and back in the answers.
func translateIdentity(config *rest.Config, identity string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "control-plane: cannot set the hostname here; translating %s to %s in Leases\n", host, identity)
	// The names are looked for in JSON text.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &identityTranslator{next: next, host: holder(host), pod: holder(identity)}
	})
	return nil
}

func holder(identity string) []byte { return fmt.Appendf(nil, `"holderIdentity":%q`, identity) }

type identityTranslator struct {
	next      http.RoundTripper
	host, pod []byte
}

// RoundTrip implements http.RoundTripper.
func (t *identityTranslator) RoundTrip(request *http.Request) (*http.Response, error) {
	if !strings.Contains(request.URL.Path, "/leases") {
		return t.next.RoundTrip(request)
	}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		request.Body.Close()
		if err != nil {
			return nil, err
		}
		body = bytes.ReplaceAll(body, t.host, t.pod)
		request = request.Clone(request.Context())
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, t.pod, t.host)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}
