import { useState } from 'react'
import { Button, IconButton } from '../../ui/button.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'
import { choicesOf, controlOf } from './form-values.ts'
import { type Filter, labelOf, type Resource } from './model.ts'

type Pair = [parameter: string, value: string]

const operators: Record<string, string> = {
  '': 'is',
  in: 'is one of',
  not: 'is not',
  null: 'is empty',
  prefix: 'begins with',
  from: 'from',
  to: 'to',
  after: 'after',
  before: 'before',
}

const operatorLabel = ({ operator, parameter }: Filter) =>
  /^(min|max)[A-Z]/.test(parameter) ? labelOf(parameter).toLowerCase() : (operators[operator] ?? operator)

/** Returns the label of a filter's field, such as `Customer › name`. */
const fieldLabel = (field: string) => field.split('.').map(labelOf).join(' › ')

interface FilterBuilderProps {
  resource: Resource
  filters: readonly Pair[]
  onChange: (filters: Pair[]) => void
}

/**
 * The filters of a table. Each filter has a field, one of the operators that the service supports for it, and a value.
 */
export function FilterBuilder({ resource, filters, onChange }: FilterBuilderProps) {
  const [isAdding, setAdding] = useState(false)
  const known = new Map(resource.filters.map((filter) => [filter.parameter, filter]))
  if (resource.filters.length === 0) return null
  return (
    <fieldset className="row record-filters">
      <legend className="visually-hidden">Filters</legend>
      {filters.map(([parameter, value], at) => {
        const filter = known.get(parameter)
        const text = filter
          ? `${fieldLabel(filter.field)} ${operatorLabel(filter)} ${value}`
          : `${labelOf(parameter)} ${value}`
        return (
          <span key={parameter} className="badge info">
            {text}
            <IconButton
              label={`Remove the filter ${text}`}
              isCompact
              onPress={() => onChange(filters.filter((_, index) => index !== at))}
            >
              ×
            </IconButton>
          </span>
        )
      })}
      {isAdding ? (
        <NewFilter
          resource={resource}
          onAdd={(pair) => {
            onChange([...filters.filter(([parameter]) => parameter !== pair[0]), pair])
            setAdding(false)
          }}
          onCancel={() => setAdding(false)}
        />
      ) : (
        <Button isCompact onPress={() => setAdding(true)}>
          Add filter
        </Button>
      )}
    </fieldset>
  )
}

interface NewFilterProps {
  resource: Resource
  onAdd: (pair: Pair) => void
  onCancel: () => void
}

function NewFilter({ resource, onAdd, onCancel }: NewFilterProps) {
  const position = (field: string) => resource.fields.findIndex(({ name }) => name === field) >>> 0
  const fields = [...new Set(resource.filters.map(({ field }) => field))].toSorted((a, b) => position(a) - position(b))
  const [field, setField] = useState(fields[0] ?? '')
  const offered = resource.filters.filter((filter) => filter.field === field)
  const [parameter, setParameter] = useState(offered[0]?.parameter ?? '')
  const [value, setValue] = useState('')
  const filter = offered.find((one) => one.parameter === parameter) ?? offered[0]
  if (filter === undefined) return null
  const choose = (next: string) => {
    setField(next)
    setParameter(resource.filters.find((one) => one.field === next)?.parameter ?? '')
    setValue('')
  }
  const sent = value === '' ? defaultValue(filter) : value
  return (
    <form
      className="row record-filter"
      onSubmit={(event) => {
        event.preventDefault()
        onAdd([filter.parameter, sent])
      }}
    >
      <SelectField
        {...{ label: 'Field', isLabelHidden: true, value: field, onChange: choose }}
        options={fields.map((name) => ({ value: name, label: fieldLabel(name) }))}
      />
      <SelectField
        {...{ label: 'Operator', isLabelHidden: true, value: filter.parameter, onChange: setParameter }}
        options={offered.map((one) => ({ value: one.parameter, label: operatorLabel(one) }))}
      />
      <FilterValue filter={filter} resource={resource} value={sent} onChange={setValue} />
      <Button type="submit" isCompact look="primary">
        Apply
      </Button>
      <Button isCompact onPress={onCancel}>
        Cancel
      </Button>
    </form>
  )
}

/** Returns the values to choose from; undefined if the filter accepts any text. */
function choicesFor(filter: Filter, resource: Resource): string[] | undefined {
  if (filter.operator === 'null') return ['true', 'false']
  if (filter.operator === 'in') return undefined
  const field = resource.fields.find(({ name }) => name === filter.field)
  const choices = choicesOf(filter.schema) ?? (field && choicesOf(field.schema))
  if (choices) return choices.map(String)
  return field && controlOf(field.schema) === 'boolean' ? ['true', 'false'] : undefined
}

const defaultValue = (filter: Filter) => (filter.operator === 'null' ? 'true' : '')

function FilterValue({
  filter,
  resource,
  value,
  onChange,
}: {
  filter: Filter
  resource: Resource
  value: string
  onChange: (value: string) => void
}) {
  const common = { label: 'Value', isLabelHidden: true, value, onChange }
  const choices = choicesFor(filter, resource)
  if (choices) {
    const options = (filter.operator === 'null' ? choices : ['', ...choices]).map((choice) => ({
      value: choice,
      label: choice === 'true' ? 'Yes' : choice === 'false' ? 'No' : choice || '–',
    }))
    return <SelectField {...common} options={options} />
  }
  const isMany = filter.operator === 'in'
  const control = isMany ? 'text' : controlOf(filter.schema)
  const type = control === 'integer' || control === 'number' ? 'number' : control === 'date' ? 'date' : 'text'
  const placeholder = isMany ? 'a,b,c' : control === 'instant' ? '2026-03-01T12:00:00Z' : ''
  return <TextField {...common} type={type} step="any" placeholder={placeholder} />
}
