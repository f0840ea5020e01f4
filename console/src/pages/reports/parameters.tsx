import { CheckField, fieldError, SelectField, TextField } from '../../ui/fields.tsx'

/** The subset of JSON Schema that report parameters use. */
export interface Schema {
  type?: string | readonly string[]
  format?: string
  description?: string
  enum?: readonly unknown[]
  const?: unknown
  properties?: Record<string, Schema>
  required?: readonly string[]
  items?: Schema
  anyOf?: readonly Schema[]
  minimum?: number
  maximum?: number
}

/** The values of the form fields by parameter path, such as `filter.name`: text or, for a list, the selected names. */
export type Values = Readonly<Record<string, string | readonly string[]>>

interface Props {
  schema: Schema
  values: Values
  onChange: (values: Values) => void
  error: unknown
  path?: string
}

const listOf = (schema: Schema): readonly string[] | undefined => {
  const list = [schema, ...(schema.anyOf ?? [])].find(({ type, items }) => type === 'array' && items?.enum)
  return list?.items?.enum?.map(String)
}

const choicesOf = ({ enum: choices, type, anyOf = [] }: Schema): readonly string[] | undefined => {
  if (type === 'boolean') return ['true', 'false']
  const constants = anyOf.flatMap((one) => (one.const === undefined ? [] : [String(one.const)]))
  return choices?.map(String) ?? (constants.length > 0 ? constants : undefined)
}

const titleOf = (name: string) => {
  const words = name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const inputTypes: Record<string, string> = { 'date-time': 'datetime-local', date: 'date', email: 'email', uri: 'url' }

/** The form fields for report parameters, one per property of the schema. */
export function ParameterFields({ schema, path = '', ...props }: Props) {
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const at = path === '' ? name : `${path}.${name}`
    const isRequired = schema.required?.includes(name) ?? false
    if (property.properties !== undefined)
      return Object.keys(property.properties).length === 0 ? null : (
        <fieldset key={at} className="stack tight">
          <legend>{titleOf(name)}</legend>
          <ParameterFields {...props} schema={property} path={at} />
        </fieldset>
      )
    return <ParameterField key={at} {...props} schema={property} path={at} name={name} isRequired={isRequired} />
  })
}

interface FieldProps extends Required<Props> {
  name: string
  isRequired: boolean
}

function ParameterField({ schema, values, onChange, error, path, name, isRequired }: FieldProps) {
  const set = (value: string | readonly string[]) => onChange({ ...values, [path]: value })
  const list = listOf(schema)
  const common = { label: titleOf(name), hint: schema.description, error: errorAt(error, path), isRequired }
  if (list?.some((one) => one.startsWith('-'))) {
    const options = [{ value: '', label: 'Default' }, ...list.map((value) => ({ value, label: orderText(value) }))]
    const chosen = values[path]?.[0] ?? ''
    return (
      <SelectField
        {...common}
        hint={undefined}
        value={chosen}
        onChange={(one) => set(one === '' ? [] : [one])}
        options={options}
      />
    )
  }
  if (list !== undefined)
    return <Choices legend={titleOf(name)} list={list} chosen={values[path] ?? []} onChange={set} />
  const choices = choicesOf(schema)
  const text = String(values[path] ?? '')
  if (choices !== undefined) {
    const options = [
      { value: '', label: isRequired ? 'Choose …' : 'Any' },
      ...choices.map((value) => ({ value, label: value })),
    ]
    return <SelectField {...common} value={text} onChange={set} options={options} />
  }
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  const type = isNumber ? 'number' : (inputTypes[schema.format ?? ''] ?? 'text')
  const step = schema.type === 'number' ? 'any' : undefined
  return (
    <TextField
      {...common}
      type={type}
      min={schema.minimum}
      max={schema.maximum}
      step={step}
      value={text}
      onChange={set}
    />
  )
}

const orderText = (field: string) => (field.startsWith('-') ? `${titleOf(field.slice(1))}, descending` : titleOf(field))

interface ChoicesProps {
  legend: string
  list: readonly string[]
  chosen: string | readonly string[]
  onChange: (chosen: readonly string[]) => void
}

function Choices({ legend, list, chosen, onChange }: ChoicesProps) {
  const toggle = (name: string, isSelected: boolean) =>
    onChange(list.filter((one) => (one === name ? isSelected : chosen.includes(one))))
  return (
    <fieldset className="stack tight">
      <legend>{legend}</legend>
      <p className="quiet small">All, if none is chosen</p>
      <div className="row">
        {list.map((name) => (
          <CheckField key={name} label={name} isSelected={chosen.includes(name)} onChange={(is) => toggle(name, is)} />
        ))}
      </div>
    </fieldset>
  )
}

/** Returns the service's error message for a parameter. */
const errorAt = (error: unknown, path: string) =>
  fieldError(error, `parameters.${path}`) ?? fieldError(error, `parameters/${path.replaceAll('.', '/')}`)

/** Converts the form's values to parameters with the types in the schema. Omits empty fields. */
export function parametersOf(schema: Schema, values: Values, path = ''): Record<string, unknown> {
  const entries = Object.entries(schema.properties ?? {}).flatMap(([name, property]): [string, unknown][] => {
    const at = path === '' ? name : `${path}.${name}`
    if (property.properties !== undefined) {
      const nested = parametersOf(property, values, at)
      return Object.keys(nested).length > 0 ? [[name, nested]] : []
    }
    const value = values[at]
    if (value === undefined || value.length === 0) return []
    return [[name, typeof value === 'string' ? typed(property, value) : value]]
  })
  return Object.fromEntries(entries)
}

function typed({ type, format }: Schema, text: string): unknown {
  if (type === 'integer' || type === 'number') return Number(text)
  if (type === 'boolean') return text === 'true'
  return format === 'date-time' ? new Date(text).toISOString() : text
}
