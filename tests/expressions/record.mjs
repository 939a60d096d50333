// Writes vectors.json: the results of liquidjs for a few hundred expressions.
// npm ci && npm run record
// crates/scrip-expression/tests/language/oracle.rs compares them and lists the differences with
// reasons.
import { writeFileSync } from 'node:fs';
import { Liquid } from 'liquidjs';

// Liquid reads a time without an offset in the local time zone. Our implementation uses UTC and
// keeps an offset as it was written.
process.env.TZ = 'UTC';
const engine = new Liquid({ preserveTimezones: true, locale: 'en-US' });
const cases = [];
const add = (source, data = null) => cases.push({ source, data });
const each = (values, chains) => {
  for (const data of values) for (const chain of chains) add(`{{ data | ${chain} }}`, data);
};

const texts = ['Hello, World', '', ' two  spaces ', 'éàü ß', 'a-b-c', '123-45-6789', 'x\ny\r\nz'];
each(texts, [
  'append: "!"', 'prepend: "<"', 'capitalize', 'downcase', 'upcase', 'strip', 'lstrip', 'rstrip',
  'size', 'first', 'last', 'slice: 1', 'slice: 1, 3', 'slice: -3, 2', 'slice: 50',
  'remove: "-"', 'remove_first: "-"', 'remove_last: "-"', 'remove: "l"',
  'replace: "-", "+"', 'replace_first: "-", "+"', 'replace_last: "-", "+"', 'replace: "l", ""',
  'truncate: 5', 'truncate: 5, ""', 'truncate: 100', 'truncate: 2, ".."',
  'truncatewords: 1', 'truncatewords: 1, "--"',
  'split: "-" | join: "|"', 'split: "" | join: "."', 'split: ", " | size',
  'split: "-" | first', 'split: "-" | last', 'split: "-" | reverse | join: "-"',
  'newline_to_br', 'strip_newlines', 'url_encode', 'base64_encode',
  'base64_encode | base64_decode', 'url_encode | url_decode', 'default: "d"', 'escape',
]);
each(['<p class="x">a &amp; b</p>', 'a<script>alert(1)</script>b<!-- c -->d<style>e</style>', '1 < 2 & 3 > 2', "it's"], [
  'escape', 'escape_once', 'strip_html',
]);
each([0, 7, -7, 3.5, -2.25, '12', '4.2', 100000], [
  'abs', 'ceil', 'floor', 'round', 'round: 1', 'plus: 3', 'minus: 3', 'times: 3', 'plus: 0.5',
  'times: 1.5', 'modulo: 3', 'divided_by: 2.5', 'at_least: 5', 'at_most: 5', 'append: "x"', 'minus: "2"',
]);
each([10, 6, -6, 0], ['divided_by: 2', 'modulo: 4']);
each([[3, 1, 2], ['b', 'a', 'C', 'a'], [], [1, null, 2, null], [true, false], [[1, 2], [3]]], [
  'size', 'compact | join: ","', 'compact | size', 'concat: data | size', 'slice: 1, 2 | join: ","',
  'reverse | join: ","',
]);
each([[3, 1, 2], ['b', 'a', 'C', 'a'], [], [10, 9, 100]], [
  'join: ","', 'join', 'first', 'last', 'reverse | join: ","', 'uniq | join: ","', 'sort | join: ","',
  'sort_natural | join: ","',
]);
each([[3, 1, 2], [1.5, 2.5], [], [10]], ['sum']);
const people = [{ name: 'Ann', age: 30, on: true }, { name: 'bob', age: 20, on: false }, { age: 25 }];
each([people], [
  'map: "name" | join: ","', 'map: "age" | sum', 'sum: "age"', 'where: "on" | size',
  'where: "name", "bob" | map: "age" | first', 'where: "age", 25 | size', 'sort: "age" | map: "age" | join: ","',
  'map: "name" | compact | join: ","', 'where: "none" | size',
]);
each([null, false, true, '', 0, [], 'x'], ['default: "d"', 'default: "d", allow_false: true', 'append: "x"']);

const dates = [
  '2024-02-29T13:05:09Z', '2024-02-29T13:05:09.045Z', '2023-12-31T23:59:59+02:00', '2023-01-01T00:00:00-05:30',
  '2021-01-03', '2024-12-30 07:08', '2024-12-30 12:00:01', '1969-07-20 20:17:40 +0000', '2/9/2005', '12/31/1999',
  0, 1152098955, -1, 253402300799,
];
each(dates, [
  'date: "%a %A %^a %^A"', 'date: "%b %B %h %^b %^B"', 'date: "%C %y %Y %-y"', 'date: "%d %-d %_d %e %-e %0e"',
  'date: "%H %-H %_H %k %-k %0k"', 'date: "%I %-I %_I %l %-l %0l"', 'date: "%j %-j %_j"', 'date: "%L %N %3N %6N"',
  'date: "%m %-m %_m"', 'date: "%M %-M %S %-S"', 'date: "%p %P %^P"', 'date: "%s"', 'date: "%u %w"', 'date: "%U %W %-U"',
  'date: "%z %:z"', 'date: "100%%,%n%tx"', 'date: "%Y-%m-%dT%H:%M:%S%:z"', 'date: "%B %-d, %Y at %-I:%M %p"',
  'date: "%d/%m/%y"', 'date: "é {%Y}"',
]);
each([null], ['date: "%Y"']);
each(['2024-02-29T13:05:09Z'], [
  'date: "%Z"', 'date: "%D"', 'date: "%F"', 'date: "%T"', 'date: "%R"', 'date: "%r"', 'date: "%G-W%V"', 'date: "%q"',
  'date: ""', 'date: "50%"',
]);
each(['2024-02-29T13:05:09+02:00'], ['date: "%Z"']);
each(['2024-02-30', '20291231', 'soon', '', 1.5, '2024-02-29T13:05:09.123456789Z', true], ['date: "%Y-%m-%d %N"']);

for (const data of [null, false, true, '', ' ', 'text', 0, 1, [], ['a'], {}]) {
  add('{% if data %}yes{% else %}no{% endif %}', data);
  add('{% unless data %}yes{% else %}no{% endunless %}', data);
  add('{% if data == empty %}empty{% endif %}{% if data != empty %}full{% endif %}', data);
  add('{% if data == nil %}nil{% elsif data == "text" %}text{% elsif data == 1 %}one{% else %}else{% endif %}', data);
  add('{% case data %}{% when "text" %}t{% when 1, 2 %}n{% when true or false %}b{% else %}e{% endcase %}', data);
}
for (const data of [1, 5, 10]) {
  for (const operator of ['==', '!=', '<', '>', '<=', '>=']) {
    add(`{% if data ${operator} 5 %}yes{% else %}no{% endif %}`, data);
  }
  add('{% if data > 1 and data < 10 %}in{% endif %}', data);
  add('{% if data == 1 or data == 10 and false %}right{% else %}none{% endif %}', data);
  add('{% if data == 1 and false or true %}right{% else %}none{% endif %}', data);
}
add('{% if data contains "b" %}yes{% endif %}', 'abc');
add('{% if data contains "b" %}yes{% endif %}', ['a', 'b']);
add('{% if data contains "z" %}yes{% else %}no{% endif %}', ['a', 'b']);
add('{% if data.none contains "z" %}yes{% else %}no{% endif %}', {});
const list = ['a', 'b', 'c', 'd'];
for (const head of ['item in data', 'item in data reversed', 'item in data limit: 2', 'item in data offset: 1',
  'item in data limit: 2 offset: 1', 'item in data reversed limit: 3', 'item in (1..4)', 'item in (2..data.size)',
  'item in data.none']) {
  add(`{% for ${head} %}{{ item }}{% else %}none{% endfor %}`, list);
  add(`{% for ${head} %}{{ forloop.index }}/{{ forloop.length }}{% if forloop.last %}.{% else %},{% endif %}{% endfor %}`, list);
  add(`{% for ${head} %}{{ forloop.index0 }}{{ forloop.rindex }}{{ forloop.rindex0 }}{{ forloop.first }} {% endfor %}`, list);
  add(`{% for ${head} %}{% if item == "b" %}{% continue %}{% endif %}{% if item == "d" %}{% break %}{% endif %}{{ item }}{% endfor %}`, list);
}
add('{% for a in data %}{% for b in a %}{{ forloop.index }}{{ b }}{% break %}{% endfor %}{{ forloop.index }};{% endfor %}', [[1, 2], [3, 4]]);
add('{% for pair in data %}{{ pair[0] }}={{ pair[1] }};{% endfor %}', { a: 1, b: 'x' });
add('{% for item in data %}[{{ item }}]{% endfor %}', 'text');
add('{% assign x = data | upcase %}{{ x }}{{ x | downcase }}', 'aB');
add('{% assign x = data | split: "," %}{{ x[0] }}{{ x[-1] }}{{ x.first }}{{ x.last }}{{ x.size }}', 'a,b,c');
add('{% assign i = 1 %}{{ data[i] }}{{ data[0] }}', ['p', 'q']);
add('{% capture x %}<{{ data }}>{% endcapture %}{{ x }}{{ x | size }}', 'in');
add('{% assign x = 0 %}{% for i in data %}{% assign x = x | plus: i %}{% endfor %}{{ x }}', [1, 2, 3]);
add('{% assign i = "out" %}{% for i in data %}{{ i }}{% endfor %}{{ i }}', [1, 2]);
add('a{% comment %} {{ data }} {% if %} {% endcomment %}b', 'x');
add('a{% raw %}{{ data }}{% if %}{% endraw %}b', 'x');
add('{% # a note %}a', 'x');
add('{% echo data | upcase %}', 'x');
add(' a {{- data -}} b ', 'x');
add(' a {%- if data -%} b {%- endif -%} c ', 'x');
add('a {% if data -%} b {% endif %} c', 'x');
add('{{ data["a b"] }}{{ data.list[1] }}{{ data.list.first }}{{ data.text.size }}', { 'a b': 1, list: [1, 2], text: 'abc' });
add('{{ data.size }}', { size: 'own' });
add('{{ data.a.b.c }}|{{ data.x.y }}', { a: { b: { c: 'deep' } } });
add('{{ "quoted" }}{{ \'single\' }}{{ 12 }}{{ -3 }}{{ true }}{{ nil }}{{ 1.5 }}');
add('{{ data }} and {{ data }}', 'text');
add('{{ (1..4) | join: "-" }}');
add('{{ data | split: "@" | first }}@{{ data | split: "@" | last }}', 'who@example.com');

const vectors = cases.map(({ source, data }) => {
  let expected = null;
  try {
    expected = engine.parseAndRenderSync(source, { data });
  } catch {
    // An error. The expected value stays null.
  }
  return { source, data, expected };
});
writeFileSync(new URL('vectors.json', import.meta.url), `[\n${vectors.map((it) => JSON.stringify(it)).join(',\n')}\n]\n`);
console.log(`${vectors.length} vectors`);
