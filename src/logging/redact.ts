const mask = '…'

/** Matches credentials by their form: in URLs, Authorization headers, tokens, webhook secrets, API keys and parameters. */
const patterns: readonly [pattern: RegExp, replacement: string][] = [
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s"\\/?#]*@/gi, `$1${mask}@`],
  [/\b(Bearer|Basic) +[\w.~+/=-]{8,}/gi, `$1 ${mask}`],
  [/\beyJ[\w-]{8,}(\.[\w-]*)*/g, mask],
  [/\b(whsec_|plk_)[\w+/=-]{16,}/g, `$1${mask}`],
  [/\b((?:\w*(?:secret|password|passwd|token|api_?key|signature))|code|code_verifier)=[^\s"&\\]+/gi, `$1=${mask}`],
]

const minSecretLength = 4

/**
 * Returns a function that masks credentials in a line of JSON. It masks text that looks like a credential in every
 * line, and the given secrets only in lines with an error. The result is still JSON.
 */
export function redactor(secrets: readonly string[]): (line: string) => string {
  const texts = secrets
    .filter(({ length }) => length >= minSecretLength)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
  const known = [...new Set(texts)].sort((one, other) => other.length - one.length)
  return (line) => {
    let text = line
    // Only errors contain text from other programs. In other lines, masking a secret such as `postgres` would also mask
    // ordinary words.
    if (line.includes('"err":')) for (const secret of known) text = text.replaceAll(secret, mask)
    for (const [pattern, replacement] of patterns) text = text.replace(pattern, replacement)
    return text
  }
}

interface ErrorFields {
  type: string
  message: string
  stack?: string | undefined
  cause?: ErrorFields
  errors?: ErrorFields[]
  [name: string]: unknown
}

/** Properties of errors that describe the failure and contain no data from requests. */
const properties = ['code', 'errno', 'syscall', 'errcode', 'severity', 'schema', 'table', 'column', 'constraint']
const maxDepth = 4
const maxErrors = 5

/**
 * Returns the fields of `err`: type, message, stack, cause, aggregated errors and a few codes. Drivers add other
 * properties, such as the statement, the command with its arguments, the URL or the signed request. These are not
 * logged.
 */
export function errorFields(error: unknown, depth = 0): ErrorFields {
  if (!(error instanceof Error)) return { type: typeof error, message: messageOf(error) }
  const own = error as unknown as Record<string, unknown>
  const codes = properties.filter((name) => ['string', 'number'].includes(typeof own[name]))
  const status = (own.$metadata as { httpStatusCode?: unknown } | undefined)?.httpStatusCode
  const { name, message, stack, cause } = error
  const causes = error instanceof AggregateError ? error.errors.slice(0, maxErrors) : []
  return {
    ...{ type: name, message, stack },
    ...Object.fromEntries(codes.map((code) => [code, own[code]])),
    ...(typeof status === 'number' && { status }),
    ...(cause !== undefined && depth < maxDepth && { cause: errorFields(cause, depth + 1) }),
    ...(causes.length > 0 && depth < maxDepth && { errors: causes.map((one) => errorFields(one, depth + 1)) }),
  }
}

/** Returns the text to log for a thrown value that is not an `Error`; for an object, only its message or code. */
function messageOf(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  const { message, code } = value as { message?: unknown; code?: unknown }
  return String(message ?? code ?? 'unknown error')
}
