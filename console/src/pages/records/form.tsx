import { useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { ApiError } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { messageOf } from '../../ui/states.tsx'
import { allows, readPage, readRow, rowKey, useResources, useSend } from './data.ts'
import { choicesOf, controlOf, type Draft } from './form-values.ts'
import { type Field, type Row, titleOf } from './model.ts'

interface RecordFormProps {
  fields: readonly Field[]
  draft: Draft
  onChange: (draft: Draft) => void
  /** Messages for invalid text, by field name. */
  errors: Readonly<Record<string, string>>
  /** The error of the last request. */
  error: unknown
  isNew: boolean
  isRunning: boolean
  action: string
  onSubmit: () => void
  onCancel: () => void
}

/** A form with a control for each field of a resource. The service's error messages appear next to their fields. */
export function RecordForm({ fields, draft, onChange, errors, error, isNew, ...form }: RecordFormProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault()
    form.onSubmit()
  }
  const errorOf = (name: string) => errors[name] ?? fieldError(error, name)
  const wrong = error instanceof ApiError ? error.fields : []
  const isPlaced = wrong.length > 0 && wrong.every(({ field }) => fields.some(({ name }) => name === nameOf(field)))
  return (
    <form className="stack" noValidate onSubmit={submit}>
      {error !== null && (
        <p className="notice wrong" role="alert">
          {isPlaced ? 'Some fields need a change.' : messageOf(error)}
        </p>
      )}
      <div className="record-form">
        {fields.map((field) => (
          <FieldControl
            key={field.name}
            field={field}
            isRequired={isNew && field.isRequired}
            isNew={isNew}
            value={draft[field.name] ?? ''}
            error={errorOf(field.name)}
            onChange={(text) => onChange({ ...draft, [field.name]: text })}
          />
        ))}
      </div>
      <div className="row">
        <Button type="submit" look="primary" isDisabled={form.isRunning}>
          {form.action}
        </Button>
        <Button onPress={form.onCancel}>Cancel</Button>
      </div>
    </form>
  )
}

/** Returns the field name from an error's `field`, which may be a JSON pointer. */
const nameOf = (field: string) => field.replace(/^\//, '')

interface FieldControlProps {
  field: Field
  isRequired: boolean
  isNew: boolean
  value: string
  error: string | undefined
  onChange: (text: string) => void
}

export function FieldControl({ field, isRequired, isNew, value, error, onChange }: FieldControlProps): ReactNode {
  const { schema, label } = field
  const secret = field.isWriteOnly && !isNew ? 'Never shown. Leave it empty to keep the value.' : undefined
  const hint = secret ?? schema.description
  const common = { label, value, error, isRequired, onChange, ...(hint !== undefined && { hint }) }
  const control = controlOf(schema)
  if (field.reference !== null) return <ReferenceField {...common} resource={field.reference} />
  if (control === 'choice' || control === 'boolean') {
    const choices = choicesOf(schema)?.map(String) ?? ['true', 'false']
    const options = ['', ...choices].map((choice) => ({ value: choice, label: optionText(choice, control) }))
    return <SelectField {...common} options={options} />
  }
  if (control === 'lines') return <TextField {...common} rows={4} />
  if (control === 'json') return <TextField {...common} rows={5} hint={hint ?? 'JSON'} />
  if (control === 'instant') return <TextField {...common} placeholder="2026-03-01T12:00:00Z" />
  const { minimum, maximum } = schema
  const bounds = { ...(minimum !== undefined && { min: minimum }), ...(maximum !== undefined && { max: maximum }) }
  if (control === 'integer') return <TextField {...common} {...bounds} type="number" step={1} />
  if (control === 'number') return <TextField {...common} {...bounds} type="number" step="any" />
  return <TextField {...common} type={control === 'date' ? 'date' : 'text'} />
}

function optionText(choice: string, control: string): string {
  if (choice === '') return '–'
  if (control !== 'boolean') return choice
  return choice === 'true' ? 'Yes' : 'No'
}

interface ReferenceFieldProps {
  label: string
  hint?: string
  value: string
  error: string | undefined
  isRequired: boolean
  resource: string
  onChange: (text: string) => void
}

const minSearched = 2

const isMissing = (error: unknown) => error instanceof ApiError && error.status === 404

/** A field for the id of a related row. The user types the id, or chooses a row from the results of a search. */
function ReferenceField({ resource: name, value, onChange, ...field }: ReferenceFieldProps) {
  const session = useSession()
  const send = useSend()
  const [text, setText] = useState('')
  const target = useResources().data?.find((one) => one.name === name)
  const mayRead = target !== undefined && allows(session, target.can.read)
  const chosen = useQuery({
    queryKey: [...rowKey(name, value), 'title'],
    enabled: mayRead && value !== '',
    retry: false,
    queryFn: async () => (target ? titleOf((await readRow(send, target, value)).row, target) : null),
  })
  const isSearchable = target?.hasSearch === true && allows(session, target.can.list)
  const found = useQuery({
    queryKey: ['records', name, 'find', text],
    enabled: isSearchable && text.length >= minSearched,
    queryFn: ({ signal }) => readPage<Row>(send, `${target?.path}?limit=10&q=${encodeURIComponent(text)}`, signal),
  })
  const title = isMissing(chosen.error) ? 'No such row' : chosen.data
  return (
    <div className="stack tight">
      <TextField {...field} value={value} onChange={onChange} hint={title ?? field.hint ?? `Id in ${name}`} />
      {isSearchable && (
        <TextField
          label={`Find ${field.label.toLowerCase()}`}
          isLabelHidden
          placeholder={`Find in ${name}`}
          value={text}
          onChange={setText}
        />
      )}
      <ul className="record-found">
        {(text.length >= minSearched ? (found.data?.items ?? []) : []).map((row) => (
          <li key={row.id}>
            <Button
              isCompact
              look="plain"
              onPress={() => {
                onChange(String(row.id))
                setText('')
              }}
            >
              {target ? titleOf(row, target) : row.id} <span className="quiet">#{row.id}</span>
            </Button>
          </li>
        ))}
      </ul>
    </div>
  )
}
