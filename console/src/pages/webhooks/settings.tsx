import { useMemo } from 'react'
import { Button } from '../../ui/button.tsx'
import { fieldError, SelectField, TextField } from '../../ui/fields.tsx'
import { useEventTypes } from './parts.tsx'

/** The values of the webhook form. */
export interface Settings {
  event: string
  callbackUrl: string
  description: string
  payloadStyle: 'plain' | 'envelope'
  version: string
  headers: readonly { key: number; name: string; value: string }[]
}

export const noSettings: Settings = {
  ...{ event: '*', callbackUrl: '', description: '', payloadStyle: 'plain', version: '', headers: [] },
}

/** Converts the form's headers to an object; omits headers without a name. */
export const headersOf = (headers: Settings['headers']): Record<string, string> =>
  Object.fromEntries(headers.filter(({ name }) => name.trim() !== '').map(({ name, value }) => [name.trim(), value]))

interface Props {
  settings: Settings
  onChange: (settings: Settings) => void
  error: unknown
}

/** The fields of a webhook. */
export function SettingsFields({ settings, onChange, error }: Props) {
  const set = (more: Partial<Settings>) => onChange({ ...settings, ...more })
  return (
    <>
      <TextField
        label="Address"
        hint="Receives a POST request for each event. https, unless the service allows http."
        type="url"
        placeholder="https://client.example/hooks/plinth"
        isRequired
        value={settings.callbackUrl}
        onChange={(callbackUrl) => set({ callbackUrl })}
        error={fieldError(error, 'callbackUrl')}
      />
      <EventField settings={settings} set={set} error={error} />
      <TextField
        label="Description"
        value={settings.description}
        onChange={(description) => set({ description })}
        error={fieldError(error, 'description')}
      />
      <SelectField
        label="Body"
        value={settings.payloadStyle}
        onChange={(payloadStyle) => set({ payloadStyle })}
        options={[
          { value: 'plain', label: 'The event itself' },
          { value: 'envelope', label: 'In an envelope with type, timestamp and data' },
        ]}
      />
      <TextField
        label="API version"
        hint="Whose field names the events have, such as v2. Empty for the newest."
        value={settings.version}
        onChange={(version) => set({ version })}
        error={fieldError(error, 'version')}
      />
      <HeaderFields settings={settings} set={set} error={error} />
    </>
  )
}

interface PartProps {
  settings: Settings
  set: (more: Partial<Settings>) => void
  error: unknown
}

function EventField({ settings: { event }, set, error }: PartProps) {
  const { data: types = [] } = useEventTypes()
  const options = useMemo(() => {
    const families = [...new Set(types.map((type) => `${type.event.split('.')[0]}.*`))]
    const names = [
      { value: '*', label: '* – every event that you may read' },
      ...families.map((value) => ({ value, label: `${value} – every event of ${value.slice(0, -2)}` })),
      ...types.map((type) => ({ value: type.event, label: type.event })),
    ]
    return names.some(({ value }) => value === event) ? names : [{ value: event, label: event }, ...names]
  }, [types, event])
  const chosen = types.find((type) => type.event === event)
  return (
    <SelectField
      label="Events"
      hint={chosen?.description}
      value={event}
      onChange={(name) => set({ event: name })}
      options={options}
      error={fieldError(error, 'event')}
    />
  )
}

function HeaderFields({ settings: { headers }, set, error }: PartProps) {
  const change = (key: number, more: { name?: string; value?: string }) =>
    set({ headers: headers.map((header) => (header.key === key ? { ...header, ...more } : header)) })
  const nextKey = Math.max(0, ...headers.map(({ key }) => key)) + 1
  return (
    <fieldset className="stack tight">
      <legend>Static headers</legend>
      {headers.map(({ key, name, value }) => (
        <div key={key} className="row header-row">
          <TextField
            label="Name"
            isLabelHidden
            placeholder="x-environment"
            value={name}
            onChange={(text) => change(key, { name: text })}
            error={fieldError(error, `headers.${name}`)}
          />
          <TextField
            label={`Value of ${name}`}
            isLabelHidden
            placeholder="staging"
            value={value}
            onChange={(text) => change(key, { value: text })}
          />
          <Button
            isCompact
            aria-label={`Remove ${name}`}
            onPress={() => set({ headers: headers.filter((one) => one.key !== key) })}
          >
            Remove
          </Button>
        </div>
      ))}
      <div className="row">
        <Button isCompact onPress={() => set({ headers: [...headers, { key: nextKey, name: '', value: '' }] })}>
          Add a header
        </Button>
      </div>
    </fieldset>
  )
}
