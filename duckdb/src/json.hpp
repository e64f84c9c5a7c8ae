// A writer of JSON text, as much of it as the plan encoding needs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace warpmill {

class JsonWriter {
public:
	JsonWriter &Open(char bracket) {
		Separate();
		text += bracket;
		first = true;
		return *this;
	}
	JsonWriter &Close(char bracket) {
		text += bracket;
		first = false;
		return *this;
	}
	JsonWriter &Key(const char *key) {
		Separate();
		text += '"';
		text += key;
		text += "\":";
		first = true;
		return *this;
	}
	JsonWriter &String(const std::string &value) {
		Separate();
		text += '"';
		for (unsigned char c : value) {
			if (c == '"' || c == '\\') {
				text += '\\';
				text += static_cast<char>(c);
			} else if (c < 0x20) {
				char escape[8];
				snprintf(escape, sizeof(escape), "\\u%04x", c);
				text += escape;
			} else {
				text += static_cast<char>(c);
			}
		}
		text += '"';
		return *this;
	}
	JsonWriter &Number(uint64_t value) {
		Separate();
		text += std::to_string(value);
		return *this;
	}
	JsonWriter &Bool(bool value) {
		Separate();
		text += value ? "true" : "false";
		return *this;
	}
	JsonWriter &Null() {
		Separate();
		text += "null";
		return *this;
	}

	std::string text;

private:
	void Separate() {
		if (!first) {
			text += ',';
		}
		first = false;
	}

	bool first = true;
};

} // namespace warpmill
