import { useMutation } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { authorizedFetch } from '../../api/client.ts'
import type { Parameter } from '../../api/document.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { Badge } from '../../ui/page.tsx'
import { ErrorNotice } from '../../ui/states.tsx'
import type { Operation } from './operations.ts'
import { ResponseView } from './response.tsx'
import { isStopped, send } from './send.ts'
import { curlOf, type Draft, typescriptOf } from './snippets.ts'

type Values = Readonly<Record<string, string>>

const keyOf = ({ name, in: place }: Parameter) => `${place} ${name}`

/** Builds the request from the form's values. */
function draftOf({ method, path, parameters, body }: Operation, values: Values, content: string): Draft {
  const filled = (place: Parameter['in']) =>
    parameters
      .filter((one) => one.in === place && (values[keyOf(one)] ?? '') !== '')
      .map((one): [string, string] => [one.name, values[keyOf(one)] ?? ''])
  const given = new Map(filled('path'))
  const at = path.replace(/\{([^}]+)\}/g, (_, name: string) => encodeURIComponent(given.get(name) ?? ''))
  const query = new URLSearchParams(filled('query')).toString()
  const hasBody = body !== null && content.trim() !== ''
  return {
    ...{ method, url: `${location.origin}${at}${query === '' ? '' : `?${query}`}` },
    headers: [...filled('header'), ...(hasBody ? [['Content-Type', body.type] as const] : [])],
    body: hasBody ? content : null,
  }
}

/** The form for an operation's parameters and body, and the response to the last request. */
export function OperationForm({ operation }: { operation: Operation }) {
  const { parameters, body } = operation
  const [values, setValues] = useState<Values>({})
  const [content, setContent] = useState(body?.example ?? '')
  const { sending, stop } = useSending()
  const draft = draftOf(operation, values, content)
  const fields = (some: readonly Parameter[]) => (
    <ParameterFields parameters={some} values={values} onChange={setValues} />
  )
  const needed = parameters.filter(({ required }) => required)
  const optional = parameters.filter(({ required }) => !required)
  return (
    <div className="stack">
      <form
        className="card stack"
        onSubmit={(event) => {
          event.preventDefault()
          sending.mutate(draft)
        }}
      >
        <About operation={operation} />
        {fields(needed)}
        {body !== null && (
          <TextField
            label={`Body (${body.type})`}
            rows={10}
            value={content}
            onChange={setContent}
            isRequired={body.isRequired}
          />
        )}
        {optional.length > 0 && (
          <details>
            <summary>Optional parameters ({optional.length})</summary>
            <div className="grid">{fields(optional)}</div>
          </details>
        )}
        <div className="row">
          <Button type="submit" look="primary" isDisabled={sending.isPending}>
            Send
          </Button>
          {sending.isPending && <Button onPress={stop}>Stop</Button>}
          <CopyButton text={curlOf(draft)} label="Copy as curl" />
          <CopyButton text={typescriptOf(draft)} label="Copy as TypeScript" />
        </div>
        <p className="quiet small">Copied requests read the access token from the variable TOKEN.</p>
      </form>
      {isStopped(sending.error) && (
        <p className="notice" role="status">
          Stopped before the response arrived.
        </p>
      )}
      <ErrorNotice error={isStopped(sending.error) ? null : sending.error} />
      {sending.data !== undefined && <ResponseView received={sending.data} />}
    </div>
  )
}

function About({ operation: { method, path, summary, description } }: { operation: Operation }) {
  return (
    <div className="stack tight">
      <h2>{summary}</h2>
      <div className="row">
        <Badge tone={method === 'GET' ? 'info' : method === 'DELETE' ? 'wrong' : 'warn'}>{method}</Badge>
        <code>{path}</code>
      </div>
      <p className="quiet small">{description.replaceAll('`', '')}</p>
    </div>
  )
}

/** Sends requests with the user's token. `stop` aborts the current request; so does leaving the operation. */
function useSending() {
  const session = useSession()
  const abort = useRef<AbortController | null>(null)
  const sending = useMutation({
    mutationFn: (draft: Draft) => {
      abort.current = new AbortController()
      return send(draft, authorizedFetch(session), abort.current.signal)
    },
  })
  const stop = useCallback(() => abort.current?.abort(), [])
  useEffect(() => stop, [stop])
  return { sending, stop }
}

interface FieldsProps {
  parameters: readonly Parameter[]
  values: Values
  onChange: (values: Values) => void
}

function ParameterFields({ parameters, values, onChange }: FieldsProps) {
  return parameters.map((parameter) => {
    const { name, in: place, description, required = false, schema = {}, example } = parameter
    const key = keyOf(parameter)
    const common = {
      label: place === 'header' ? `${name} (header)` : name,
      hint: description?.replaceAll('`', ''),
      isRequired: required,
      value: values[key] ?? '',
      onChange: (value: string) => onChange({ ...values, [key]: value }),
    }
    if (schema.enum === undefined)
      return <TextField key={key} {...common} placeholder={example === undefined ? '' : String(example)} />
    const options = schema.enum.map((value) => ({ value: String(value), label: String(value) }))
    return <SelectField key={key} {...common} options={[{ value: '', label: '–' }, ...options]} />
  })
}
