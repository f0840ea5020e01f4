/** A request as the explorer sends it, without the access token. */
export interface Draft {
  method: string
  url: string
  headers: readonly (readonly [name: string, value: string])[]
  body: string | null
}

const inShell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`

/** Returns the request as a curl command, which reads the access token from the environment variable TOKEN. */
export function curlOf({ method, url, headers, body }: Draft): string {
  const parts = [
    `curl -i -X ${method} ${inShell(url)}`,
    '-H "Authorization: Bearer $TOKEN"',
    ...headers.map(([name, value]) => `-H ${inShell(`${name}: ${value}`)}`),
    ...(body === null ? [] : [`--data-raw ${inShell(body)}`]),
  ]
  return parts.join(' \\\n  ')
}

const inScript = (text: string) =>
  `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`

/**
 * Returns the request as TypeScript code, which uses `fetch` and reads the access token from the environment variable
 * TOKEN.
 */
export function typescriptOf({ method, url, headers, body }: Draft): string {
  const lines = headers.map(([name, value]) => `    ${inScript(name)}: ${inScript(value)},`)
  return [
    `const response = await fetch(${inScript(url)}, {`,
    `  method: ${inScript(method)},`,
    '  headers: {',
    `    Authorization: \`Bearer \${process.env.TOKEN}\`,`,
    ...lines,
    '  },',
    ...(body === null ? [] : [`  body: ${bodyInScript(body)},`]),
    '})',
    'console.log(response.status, await response.text())',
  ].join('\n')
}

function bodyInScript(body: string): string {
  try {
    const text = JSON.stringify(JSON.parse(body), null, 2)
    return `JSON.stringify(${text.replaceAll('\n', '\n  ')})`
  } catch {
    return inScript(body)
  }
}
